-- Lists the partitions of the groups $1 whose first unfinished message is late, stuck or blocks the partition.
-- For each group it examines the 5 partitions with the earliest ready_at, the 3 partitions with the latest
-- ready_at that are not blocked, and one blocked partition. A message is late if it is due or leased, and older than belfry.late_after ($2: default in
-- seconds). A message is stuck after $3 deliveries, or if its retry is more than $4 seconds away.
-- retry_in is the seconds until the retry (NULL: no retry). A partition may be listed twice.
SELECT k.group_id, c.partition_id, head.age, coalesce(c.due AND head.age >= q.target, false) AS late, c.stuck, c.attempts, c.failures, c.retry_in, c.blocked, head.transaction_id
  FROM unnest($1::bigint[]) AS k(group_id)
 CROSS JOIN LATERAL (
        SELECT CASE WHEN NOT g.paused AND NOT q.paused THEN belfry.late_after(q.max_wait_time_seconds, $2::float8) END AS target
          FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
         WHERE g.id = k.group_id OFFSET 0) AS q
 CROSS JOIN LATERAL (
        SELECT o.partition_id, o.committed, o.skip, o.attempts, o.failures,
               CASE WHEN o.retry_at > statement_timestamp() AND o.retry_at <> belfry.blocked() THEN extract(epoch FROM o.retry_at - statement_timestamp())::float8 END AS retry_in,
               o.ready_at <= statement_timestamp() OR coalesce(o.lease_until > statement_timestamp(), false) AS due,
               o.retry_at IS DISTINCT FROM belfry.blocked()
               AND (o.attempts >= $3::bigint OR coalesce(o.retry_at > statement_timestamp() + make_interval(secs => $4::float8), false)) AS stuck,
               coalesce(o.retry_at = belfry.blocked(), false) AS blocked
          FROM (SELECT f.partition_id, f.committed, f.skip, f.attempts, f.failures, f.retry_at, f.ready_at, f.lease_until
                  FROM (SELECT c.partition_id, c.committed, c.skip, c.attempts, c.failures, c.retry_at, c.ready_at, c.lease_until
                          FROM belfry.cursor c
                         WHERE c.group_id = k.group_id AND c.ready_at IS NOT NULL
                         ORDER BY c.ready_at
                         LIMIT 5) AS f
                UNION ALL
                SELECT l.partition_id, l.committed, l.skip, l.attempts, l.failures, l.retry_at, l.ready_at, l.lease_until
                  FROM (SELECT c.partition_id, c.committed, c.skip, c.attempts, c.failures, c.retry_at, c.ready_at, c.lease_until
                          FROM belfry.cursor c
                         WHERE c.group_id = k.group_id AND c.ready_at > statement_timestamp() AND c.ready_at < belfry.blocked()
                         ORDER BY c.ready_at DESC
                         LIMIT 3) AS l
                UNION ALL
                SELECT b.partition_id, b.committed, b.skip, b.attempts, b.failures, b.retry_at, b.ready_at, b.lease_until
                  FROM (SELECT c.partition_id, c.committed, c.skip, c.attempts, c.failures, c.retry_at, c.ready_at, c.lease_until
                          FROM belfry.cursor c
                         WHERE c.group_id = k.group_id AND c.retry_at = belfry.blocked()
                         ORDER BY c.partition_id
                         LIMIT 1) AS b) AS o) AS c
 CROSS JOIN LATERAL (
        SELECT extract(epoch FROM statement_timestamp() - m.created_at)::float8 AS age, m.transaction_id FROM belfry.message m
         WHERE m.partition_id = c.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
         ORDER BY m.seq
         LIMIT 1) AS head
 WHERE c.stuck OR c.blocked OR c.due AND head.age >= q.target
