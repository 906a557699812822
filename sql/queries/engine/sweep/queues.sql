-- Lists the live queues that a sweep examines. $1: queues that evict or expire (maxWaitTimeSeconds,
-- expireAfterSeconds), otherwise queues with retention, and if $2, the queues without options of their own
-- that a group reads: by_default.
SELECT q.id, q.name, false AS by_default
  FROM belfry.queue q
 WHERE q.deleted_at IS NULL AND (q.retention_enabled OR q.max_wait_time_seconds > 0 OR q.expire_after_seconds > 0)
   AND CASE WHEN $1::boolean THEN q.max_wait_time_seconds > 0 OR q.expire_after_seconds > 0
            ELSE q.retention_enabled AND (q.retention_seconds > 0 OR q.completed_retention_seconds > 0) END
UNION ALL
SELECT q.id, q.name, true
  FROM belfry.queue q
 WHERE $2::boolean AND NOT $1::boolean AND q.deleted_at IS NULL AND NOT q.retention_enabled
   AND EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.queue_id = q.id)
 ORDER BY 1
