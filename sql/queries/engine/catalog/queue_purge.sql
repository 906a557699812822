-- Deletes the row of a queue whose deletion has begun ($1).
DELETE FROM belfry.queue q
 WHERE q.id = $1::bigint AND q.deleted_at IS NOT NULL
