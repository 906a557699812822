-- Lists the consumer groups with their queues, modes and starts. $1: a group name (NULL: any). $2: LIKE
-- patterns of queue names (NULL: any).
SELECT g.id, g.name, q.name AS queue_name, g.queue_id, g.mode, g.start_at, g.created_at, g.whole_queue, g.paused
  FROM belfry.queue q
 CROSS JOIN LATERAL (
        SELECT g.id, g.name, g.queue_id, g.mode, g.start_at, g.created_at, g.whole_queue, g.paused
          FROM belfry.consumer_group g
         WHERE g.queue_id = q.id AND ($1::text IS NULL OR g.name = $1::text) OFFSET 0) AS g
 WHERE q.deleted_at IS NULL
   AND ($2::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($2::text[]))
 ORDER BY g.name COLLATE "C", q.name COLLATE "C"
