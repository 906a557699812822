-- Lists at most $2 queues after the id $1, by id, that are paused or have a paused partition. It finds
-- them by indexes. $3: LIKE patterns of queue names (NULL: any). queue_name is NULL if $3 does not match
-- the queue, or if the queue is being deleted. partition_id is a paused partition of the queue, or NULL.
WITH RECURSIVE candidate(id, n) AS (
    SELECT $1::bigint, 0::bigint
    UNION ALL
    SELECT least((SELECT q.id FROM belfry.queue q WHERE q.paused AND q.id > s.id ORDER BY q.id LIMIT 1),
                 (SELECT p.queue_id FROM belfry.partition p WHERE p.paused AND p.queue_id > s.id ORDER BY p.queue_id LIMIT 1)), s.n + 1
      FROM candidate s
     WHERE s.id IS NOT NULL AND s.n < $2::bigint
)
SELECT s.id, q.name AS queue_name, coalesce(q.paused, false) AS paused,
       (SELECT p.id FROM belfry.partition p WHERE p.paused AND p.queue_id = s.id LIMIT 1) AS partition_id
  FROM candidate s
  LEFT JOIN LATERAL (
        SELECT q.name, q.paused FROM belfry.queue q
         WHERE q.id = s.id AND q.deleted_at IS NULL AND ($3::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($3::text[])) OFFSET 0) AS q ON true
 WHERE s.id IS NOT NULL AND s.n > 0
 ORDER BY s.n
