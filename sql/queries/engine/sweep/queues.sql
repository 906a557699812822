-- Lists the live queues that a sweep examines. If $1 is true, these are the queues with maxWaitTimeSeconds
-- or expireAfterSeconds. Otherwise these are the queues with retention. If $2 is true, the list then also
-- has the queues without retentionEnabled that have a group, with by_default true.
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
