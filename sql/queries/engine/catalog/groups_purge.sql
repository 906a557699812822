-- Deletes the consumer groups of a queue whose deletion has begun ($1).
DELETE FROM belfry.consumer_group g
 WHERE g.queue_id = $1::bigint
   AND EXISTS (SELECT 1 FROM belfry.queue q WHERE q.id = $1::bigint AND q.deleted_at IS NOT NULL)
