-- Reads the tags and all options of the live queue $1, in the order of catalog/queue_configure, and
-- locks the row of the queue until the transaction ends.
SELECT q.namespace, q.task, q.lease_time, q.retry_limit, q.delayed_processing, q.window_buffer, q.encryption_enabled,
       q.retention_enabled, q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.max_size,
       q.priority, q.retry_delay, q.ttl, q.dead_letter_queue, q.dlq_after_max_retries, q.retry_backoff, q.retry_delay_max,
       q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries, q.tenant_delimiter
  FROM belfry.queue q
 WHERE q.name = $1::text AND q.deleted_at IS NULL
   FOR NO KEY UPDATE
