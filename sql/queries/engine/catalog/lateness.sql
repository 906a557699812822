-- Returns the age in seconds of the oldest ready message (0: none), and the number of late groups
-- (belfry.late_after; $1: default in seconds). It examines only the longest due partition of each
-- group, so the cost grows with the number of groups.
SELECT coalesce(max(m.age), 0) AS oldest,
       count(*) FILTER (WHERE m.age >= m.target) AS late
  FROM (SELECT extract(epoch FROM statement_timestamp() - head.created_at)::float8 AS age,
               belfry.late_after(q.max_wait_time_seconds, $1::float8) AS target
          FROM belfry.consumer_group g
         CROSS JOIN LATERAL (
                SELECT q.max_wait_time_seconds, q.paused
                  FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
         CROSS JOIN LATERAL (
                SELECT c.partition_id, c.committed FROM belfry.cursor c
                 WHERE c.group_id = g.id AND c.ready_at <= statement_timestamp()
                 ORDER BY c.ready_at
                 LIMIT 1) AS due
         CROSS JOIN LATERAL (
                SELECT m.created_at FROM belfry.message m
                 WHERE m.partition_id = due.partition_id AND m.seq > due.committed
                 ORDER BY m.seq
                 LIMIT 1) AS head
         WHERE NOT g.paused AND NOT q.paused) AS m
