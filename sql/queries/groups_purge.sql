-- Deletes the consumer groups of a queue whose deletion has begun ($1).
DELETE FROM belfry.consumer_group g
 WHERE g.queue_id = $1::bigint
