-- Lists partitions of queue $2 by name with the cursor of group $1. $3: the first name. $4: leave out
-- the partition $3 itself. $5: partitions at most. Without a cursor, the columns of the cursor are NULL.
-- stats/group_places.sql describes the columns.
SELECT nullif(c.ready_at, belfry.blocked()) AS ready_at, p.name, p.uid, p.paused, s.lag, s.age, c.lease_id, c.lease_until, c.held, c.attempts, c.failures, c.consumed, c.consumed_at,
       c.expired, c.start_at, statement_timestamp() AS now
  FROM (SELECT p.id, p.name, p.uid, p.paused, p.last_seq
          FROM belfry.partition p
         WHERE p.queue_id = $2::bigint AND p.name >= $3::text AND NOT ($4::boolean AND p.name = $3::text) AND NOT p.closed
         ORDER BY p.name
         LIMIT $5::bigint) AS p
  LEFT JOIN LATERAL (
        SELECT c.partition_id, c.committed, c.skip, c.redrives, c.ready_at, c.attempts, c.failures, c.consumed, c.consumed_at, c.expired, c.start_at,
               CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_id END AS lease_id,
               CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_until END AS lease_until,
               CASE WHEN coalesce(c.lease_until <= statement_timestamp(), true) THEN 0
                    WHEN c.lease_end < 0 THEN -c.lease_end ELSE greatest(c.lease_end - c.committed, 0) END AS held
          FROM belfry.cursor c
         WHERE c.partition_id = p.id AND c.group_id >= $1::bigint AND c.group_id <= $1::bigint
         ORDER BY c.group_id DESC
         LIMIT 1) AS c ON true
  LEFT JOIN LATERAL (
        SELECT coalesce(p.last_seq - head.seq + 1 - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
               + coalesce(c.redrives, 0) AS lag,
               coalesce(extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at)), 0)::float8 AS age
          FROM (SELECT 1 WHERE c.partition_id IS NOT NULL) AS one
          LEFT JOIN LATERAL (
                SELECT m.seq, m.created_at FROM belfry.message m
                 WHERE c.committed < p.last_seq AND m.partition_id = p.id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                 ORDER BY m.seq
                 LIMIT 1) AS head ON true
          LEFT JOIN LATERAL (
                SELECT (SELECT m.created_at FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) AS created_at
                  FROM belfry.redrive r
                 WHERE c.redrives > 0 AND r.partition_id = p.id AND r.group_id = $1::bigint
                 ORDER BY r.seq
                 LIMIT 1) AS put ON true) AS s ON true
 ORDER BY p.name
