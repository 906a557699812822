-- Lists the groups of queue $1. Each row has the id of partition $2 of the queue (0: it does not exist).
SELECT g.id,
       coalesce((SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = $2::text AND NOT p.closed), 0) AS partition_id
  FROM belfry.queue q
  JOIN belfry.consumer_group g ON g.queue_id = q.id
 WHERE q.name = $1::text AND q.deleted_at IS NULL
