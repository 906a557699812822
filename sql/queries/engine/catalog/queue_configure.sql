-- Replaces the tags and all options of the live queue $1. $2 namespace, $3 task, $4 to $18 the options
-- of Queen MQ in the order of the columns, $19 to $24 the options that only Belfry has. Returns whether
-- the tags changed (retagged), and whether ready_at must be computed again (recompute).
WITH old AS MATERIALIZED (
    SELECT q.id, q.namespace, q.task, q.delayed_processing, q.window_buffer, q.retry_delay
      FROM belfry.queue q
     WHERE q.name = $1::text AND q.deleted_at IS NULL
       FOR NO KEY UPDATE
)
UPDATE belfry.queue q
   SET namespace = $2::text, task = $3::text,
       lease_time = $4::bigint, retry_limit = $5::bigint, delayed_processing = $6::bigint, window_buffer = $7::bigint,
       encryption_enabled = $8::boolean, retention_enabled = $9::boolean, retention_seconds = $10::bigint,
       completed_retention_seconds = $11::bigint, max_wait_time_seconds = $12::bigint, max_size = $13::bigint,
       priority = $14::bigint, retry_delay = $15::bigint, ttl = $16::bigint, dead_letter_queue = $17::boolean,
       dlq_after_max_retries = $18::boolean,
       retry_backoff = $19::bigint, retry_delay_max = $20::bigint, expire_after_seconds = $21::bigint,
       dead_letter_expired = $22::boolean, max_deliveries = $23::bigint, tenant_delimiter = $24::text
  FROM old
 WHERE q.id = old.id
RETURNING q.id, q.uid, (old.namespace, old.task) IS DISTINCT FROM (q.namespace, q.task) AS retagged,
          old.delayed_processing <> q.delayed_processing OR old.window_buffer <> q.window_buffer
              OR old.retry_delay > 0 AND q.retry_delay = 0 AS recompute
