-- Finds a queue by its name $1, with the columns of stats/queues.sql. No row: it does not exist.
SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.priority, q.lease_time, q.retry_limit, q.retry_delay,
       q.ttl, q.max_size, q.dead_letter_queue, q.paused, q.delayed_processing, q.window_buffer, q.encryption_enabled, q.retention_enabled,
       q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.dlq_after_max_retries, q.retry_backoff, q.retry_delay_max,
       q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries
  FROM belfry.queue q
 WHERE q.name = $1::text AND q.deleted_at IS NULL
