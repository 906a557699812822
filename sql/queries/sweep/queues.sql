-- Lists the live queues with sweep options. $1: queues that evict or expire (maxWaitTimeSeconds,
-- expireAfterSeconds), otherwise queues with retention.
SELECT q.id, q.name
  FROM belfry.queue q
 WHERE q.deleted_at IS NULL AND (q.retention_enabled OR q.max_wait_time_seconds > 0 OR q.expire_after_seconds > 0)
   AND CASE WHEN $1::boolean THEN q.max_wait_time_seconds > 0 OR q.expire_after_seconds > 0
            ELSE q.retention_enabled AND (q.retention_seconds > 0 OR q.completed_retention_seconds > 0) END
 ORDER BY q.id
