-- Lists at most $2 groups after the id $1, by id, that have a cursor with ready_at or a dead letter, or
-- that are paused. It finds the groups by indexes, so other groups cost nothing. $3: LIKE patterns of queue names
-- (NULL: any). queue_name is NULL if $3 does not match the queue, or if the queue is being deleted.
-- dead: the group has a dead letter. broken: its breaker is not closed.
WITH RECURSIVE candidate(id, n) AS (
    SELECT $1::bigint, 0::bigint
    UNION ALL
    SELECT least((SELECT c.group_id FROM belfry.cursor c WHERE c.ready_at IS NOT NULL AND c.group_id > s.id ORDER BY c.group_id, c.ready_at LIMIT 1),
                 (SELECT d.group_id FROM belfry.dead_letter d WHERE d.group_id > s.id ORDER BY d.group_id, d.failed_at LIMIT 1),
                 (SELECT g.id FROM belfry.consumer_group g WHERE g.paused AND g.id > s.id ORDER BY g.id LIMIT 1)), s.n + 1
      FROM candidate s
     WHERE s.id IS NOT NULL AND s.n < $2::bigint
)
SELECT s.id, g.queue_name, coalesce(g.group_name, '') AS group_name, coalesce(g.queue_id, 0) AS queue_id, coalesce(g.paused, false) AS paused,
       coalesce((SELECT true FROM belfry.dead_letter d WHERE d.group_id = s.id ORDER BY d.failed_at LIMIT 1), false) AS dead,
       EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = s.id AND b.opened_at IS NOT NULL) AS broken
  FROM candidate s
  LEFT JOIN LATERAL (
        SELECT g.name AS group_name, g.queue_id, g.paused, q.name AS queue_name
          FROM belfry.consumer_group g
          JOIN belfry.queue q ON q.id = g.queue_id
         WHERE g.id = s.id AND q.deleted_at IS NULL AND ($3::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($3::text[]))) AS g ON true
 WHERE s.id IS NOT NULL AND s.n > 0
 ORDER BY s.n
