-- Lists all queues by name.
SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.paused
  FROM belfry.queue q
 WHERE q.deleted_at IS NULL
 ORDER BY q.name
