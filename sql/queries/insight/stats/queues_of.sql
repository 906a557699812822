-- Lists the queues with the ids $1, and the queue with the name $5 (NULL: none). $2 namespace and $3
-- task (empty: any), $4 LIKE patterns of names (NULL: any). It has the columns of stats/queues.sql.
SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.priority, q.lease_time, q.retry_limit, q.retry_delay,
       q.ttl, q.max_size, q.dead_letter_queue, q.paused, q.delayed_processing, q.window_buffer, q.encryption_enabled, q.retention_enabled,
       q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.dlq_after_max_retries, q.retry_backoff, q.retry_delay_max,
       q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries, q.tenant_delimiter
  FROM unnest($1::bigint[] || ARRAY(SELECT q.id FROM belfry.queue q WHERE q.name = $5::text AND q.deleted_at IS NULL)) AS k(id)
 CROSS JOIN LATERAL (
        SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.priority, q.lease_time, q.retry_limit, q.retry_delay,
               q.ttl, q.max_size, q.dead_letter_queue, q.paused, q.delayed_processing, q.window_buffer, q.encryption_enabled, q.retention_enabled,
               q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.dlq_after_max_retries, q.retry_backoff, q.retry_delay_max,
               q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries, q.tenant_delimiter, q.deleted_at
          FROM belfry.queue q WHERE q.id = k.id OFFSET 0) AS q
 WHERE q.deleted_at IS NULL
   AND ($2::text = '' OR q.namespace = $2::text)
   AND ($3::text = '' OR q.task = $3::text)
   AND ($4::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($4::text[]))
