-- Reads the state of many waiting pops in one read-only statement. By array: $1 group ids, $2 partition
-- ids (0: any), $3 number of due partitions at most, $4 floor, $5 next floor, $6 epoch in which the
-- group id is valid.
--
-- For each position (from 1), returns the partitions that have been due the longest, and the partition
-- that is due next. If there is none, it returns one row with NULL as partition_id. group_exists is
-- false if the epoch differs, or if the group has no cursor in the requested partition. The depth of a
-- paused partition is 0. lease_seconds is the lease time of the queue. limited_in is the
-- time until the limits of the group allow a claim; NULL: they allow one now. The cost grows with the number of
-- positions, not with the number of partitions.
SELECT k.ord,
       home.id IS NOT NULL AND k.epoch = belfry.epoch() AND (k.partition_id = 0 OR (
            SELECT true FROM belfry.cursor h
             WHERE h.partition_id = k.partition_id AND h.group_id >= k.group_id AND h.group_id <= k.group_id
             ORDER BY h.group_id DESC
             LIMIT 1) IS NOT NULL) AS group_exists, d.partition_id,
       extract(epoch FROM d.ready_at - statement_timestamp())::float8 AS ready_in,
       CASE WHEN p.paused THEN 0 ELSE p.last_seq - d.committed + coalesce(d.redrives, 0) END AS depth,
       coalesce(d.lease_until > statement_timestamp(), false) AS leased,
       coalesce(home.window_buffer > 0 AND p.last_push_at + make_interval(secs => home.window_buffer) > statement_timestamp(),
                false) AS window_open,
       coalesce(home.paused OR g.paused, false) AS paused, home.lease_seconds, statement_timestamp() AS database_now,
       CASE WHEN g.limits_id IS NOT NULL THEN
           extract(epoch FROM belfry.limited_until(k.group_id, g.limits_id) - statement_timestamp())::float8 END AS limited_in
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[],
              $6::bigint[])
       WITH ORDINALITY AS k(group_id, partition_id, want, floor, next_floor, epoch, ord)
  LEFT JOIN LATERAL (
        SELECT g.queue_id, g.paused, g.limits_id FROM belfry.consumer_group g WHERE g.id = k.group_id OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (
        SELECT q.id, q.window_buffer, q.paused, coalesce(nullif(q.lease_time, 0), 60)::float8 AS lease_seconds
          FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS home ON true
  LEFT JOIN LATERAL (
        SELECT due.partition_id, due.ready_at, due.committed, due.redrives, due.lease_until
          FROM (SELECT c.partition_id, c.ready_at, c.committed, c.redrives, c.lease_until
                  FROM belfry.cursor c
                 WHERE k.partition_id = 0 AND c.group_id = k.group_id
                   AND c.ready_at >= k.floor AND c.ready_at <= statement_timestamp()
                 ORDER BY c.ready_at
                 LIMIT k.want) AS due
        UNION ALL
        SELECT next.partition_id, next.ready_at, next.committed, next.redrives, next.lease_until
          FROM (SELECT c.partition_id, c.ready_at, c.committed, c.redrives, c.lease_until
                  FROM belfry.cursor c
                 WHERE k.partition_id = 0 AND c.group_id = k.group_id
                   AND c.ready_at > statement_timestamp() AND c.ready_at >= k.next_floor
                 ORDER BY c.ready_at
                 LIMIT 1) AS next
        UNION ALL
        SELECT one.partition_id, one.ready_at, one.committed, one.redrives, one.lease_until
          FROM (SELECT c.partition_id, c.ready_at, c.committed, c.redrives, c.lease_until
                  FROM belfry.cursor c
                 WHERE k.partition_id <> 0 AND c.partition_id = k.partition_id
                   AND c.group_id >= k.group_id AND c.group_id <= k.group_id
                 ORDER BY c.group_id DESC
                 LIMIT 1) AS one
         WHERE coalesce(one.ready_at, 'infinity') < 'infinity') AS d ON true
  LEFT JOIN LATERAL (
        SELECT p.last_seq, p.last_push_at, p.paused FROM belfry.partition p
         WHERE p.id >= d.partition_id AND p.id <= d.partition_id
         ORDER BY p.id DESC
         LIMIT 1) AS p ON true
