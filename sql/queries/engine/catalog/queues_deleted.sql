-- Lists the queues whose deletion has begun.
SELECT q.id
  FROM belfry.queue q
 WHERE q.deleted_at IS NOT NULL
 ORDER BY q.id
