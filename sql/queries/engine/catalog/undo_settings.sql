-- Reads the tags and all options of the queue with the id $1, in the order of catalog/queue_configure.
SELECT q.namespace, q.task, q.lease_time, q.retry_limit, q.delayed_processing, q.window_buffer, q.encryption_enabled,
       q.retention_enabled, q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.max_size,
       q.priority, q.retry_delay, q.ttl, q.dead_letter_queue, q.dlq_after_max_retries, q.retry_backoff, q.retry_delay_max,
       q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries, q.tenant_delimiter
  FROM belfry.queue q
 WHERE q.id = $1::bigint AND q.deleted_at IS NULL
