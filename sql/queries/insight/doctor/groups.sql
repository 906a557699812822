-- Lists groups that are late because of their oldest ready message (belfry.late_after; $1: default in
-- seconds). It examines the longest due partition of each group, for at most 10,000 groups. It returns
-- the ten groups with the oldest messages, and the number of all such groups.
SELECT l.queue, l.name, l.age, count(*) OVER () AS groups
  FROM (SELECT q.name AS queue, g.name, extract(epoch FROM statement_timestamp() - head.created_at)::float8 AS age,
               belfry.late_after(q.max_wait_time_seconds, $1::float8) AS target
          FROM (SELECT g.id, g.queue_id, g.name FROM belfry.consumer_group g WHERE NOT g.paused LIMIT 10000) AS g
         CROSS JOIN LATERAL (
                SELECT q.name, q.max_wait_time_seconds
                  FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL AND NOT q.paused OFFSET 0) AS q
         CROSS JOIN LATERAL (
                SELECT c.partition_id, c.committed FROM belfry.cursor c
                 WHERE c.group_id = g.id AND c.ready_at <= statement_timestamp()
                 ORDER BY c.ready_at
                 LIMIT 1) AS due
         CROSS JOIN LATERAL (
                SELECT m.created_at FROM belfry.message m
                 WHERE m.partition_id = due.partition_id AND m.seq > due.committed
                 ORDER BY m.seq
                 LIMIT 1) AS head) AS l
 WHERE l.age >= l.target
 ORDER BY l.age DESC
 LIMIT 10
