-- Lists all queues by name. late_after: the age in seconds from which a group of the queue is late ($1: default; NULL: never).
SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.paused, belfry.late_after(q.max_wait_time_seconds, $1::float8) AS late_after
  FROM belfry.queue q
 WHERE q.deleted_at IS NULL
 ORDER BY q.name
