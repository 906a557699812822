-- Deletes up to $3 dead letters of queue $1 that failed more than $2 seconds ago, if retentionEnabled of
-- the queue is false. It skips locked dead letters, as a purge does.
DELETE FROM belfry.dead_letter l
 WHERE l.id = ANY (ARRAY (
        SELECT d.id
          FROM belfry.queue q
          JOIN belfry.consumer_group g ON g.queue_id = q.id
         CROSS JOIN LATERAL (
                SELECT d.id FROM belfry.dead_letter d
                 WHERE d.group_id = g.id AND d.failed_at <= statement_timestamp() - make_interval(secs => $2::float8)
                 ORDER BY d.failed_at
                 LIMIT $3::bigint
                   FOR UPDATE SKIP LOCKED) AS d
         WHERE q.id = $1::bigint AND q.deleted_at IS NULL AND NOT q.retention_enabled
         LIMIT $3::bigint))
