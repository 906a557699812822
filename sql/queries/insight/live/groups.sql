-- Lists at most 1000 groups beyond a threshold, the group with the oldest message first. A group is listed
-- if it is late (belfry.late_after; $1: default in seconds, 0: none), or if it has at least $2 dead letters
-- (0: no threshold). target is the age from which the group is late. next_in is the seconds until the next
-- group becomes late. It examines for each group the 10 cursors with the earliest ready_at, and at most $2
-- dead letters. If it finds no group, it returns one row without a queue.
WITH figure AS MATERIALIZED (
    SELECT q.name AS queue_name, g.name AS group_name, q.target, oldest.age, oldest.next_in, $2::bigint > 0 AND dead.n >= $2::bigint AS dead
      FROM belfry.consumer_group g
     CROSS JOIN LATERAL (
            SELECT q.name, CASE WHEN NOT g.paused AND NOT q.paused THEN belfry.late_after(q.max_wait_time_seconds, $1::float8) END AS target
              FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
     CROSS JOIN LATERAL (
            SELECT max(s.age) FILTER (WHERE s.due) AS age,
                   min(CASE WHEN s.due THEN q.target - s.age ELSE greatest(q.target - s.age, s.ready_in) END) AS next_in
              FROM (SELECT extract(epoch FROM statement_timestamp() - head.created_at)::float8 AS age,
                           extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in,
                           c.ready_at <= statement_timestamp() OR coalesce(c.lease_until > statement_timestamp(), false) AS due
                      FROM (SELECT c.partition_id, c.committed, c.ready_at, c.lease_until, c.skip
                              FROM belfry.cursor c
                             WHERE c.group_id = g.id AND c.ready_at IS NOT NULL
                             ORDER BY c.ready_at
                             LIMIT 10) AS c
                     CROSS JOIN LATERAL (
                            SELECT m.created_at FROM belfry.message m
                             WHERE m.partition_id = c.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                             ORDER BY m.seq
                             LIMIT 1) AS head) AS s) AS oldest
     CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM (SELECT d.id FROM belfry.dead_letter d WHERE d.group_id = g.id LIMIT $2::bigint) AS s) AS dead
)
SELECT statement_timestamp() AS now, n.next_in, f.queue_name, f.group_name, f.age, f.target, f.behind, f.dead
  FROM (SELECT min(f.next_in) AS next_in FROM figure f WHERE f.target IS NOT NULL AND f.next_in > 0) AS n
  LEFT JOIN LATERAL (
        SELECT f.queue_name, f.group_name, coalesce(f.age, 0) AS age, coalesce(f.target, 0) AS target, coalesce(f.age >= f.target, false) AS behind, f.dead
          FROM figure f
         WHERE f.dead OR f.age >= f.target
         ORDER BY f.age DESC NULLS LAST, f.queue_name COLLATE "C", f.group_name COLLATE "C"
         LIMIT 1000) AS f ON true
