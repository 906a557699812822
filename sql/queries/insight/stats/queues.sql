-- Lists queues, the newest first. $1 namespace and $2 task (empty: any), $3 queues at most, $4 queues to
-- skip, $5 LIKE patterns of names (NULL: any). GET /api/v1/resources/queues and GET
-- /api/v1/status/queues use it.
SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.priority, q.lease_time, q.retry_limit, q.retry_delay,
       q.ttl, q.max_size, q.dead_letter_queue, q.paused, q.delayed_processing, q.window_buffer, q.encryption_enabled, q.retention_enabled,
       q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.dlq_after_max_retries, q.retry_backoff, q.retry_delay_max,
       q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries, q.tenant_delimiter
  FROM belfry.queue q
 WHERE q.deleted_at IS NULL
   AND ($1::text = '' OR q.namespace = $1::text)
   AND ($2::text = '' OR q.task = $2::text)
   AND ($5::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($5::text[]))
 ORDER BY q.id DESC
 LIMIT $3::bigint OFFSET $4::bigint
