-- Finds a queue by its name $1. Columns as in stats_queues.sql; no row when there
-- is none.
SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.priority, q.lease_time, q.retry_limit, q.retry_delay,
       q.ttl, q.max_size, q.dead_letter_queue
  FROM belfry.queue q
 WHERE q.name = $1::text AND q.deleted_at IS NULL
