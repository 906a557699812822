-- Finds the partitions of queue $1 in which a sweep has work, among $3 partitions from the name $2 on.
-- $4 is true for eviction and false for retention. $5 is completedRetentionSeconds of a queue without
-- retentionEnabled. It reads one message of each partition. Returns the number of examined partitions,
-- the last name, the partitions with work, and the partitions with messages that are kept for a dead
-- letter. No row: no partition is left, or the queue does not exist.
SELECT count(*) AS looked, coalesce(max(s.name), '') AS last_name,
       coalesce(array_agg(s.id) FILTER (WHERE s.work), '{}') AS partition_ids,
       coalesce(array_agg(s.id) FILTER (WHERE s.kept), '{}') AS kept_ids
  FROM (SELECT p.id, p.name, NOT $4::boolean AND p.swept > p.trimmed AS kept,
               coalesce(low.committed < p.trimmed, false)
               OR CASE WHEN $4::boolean
                    THEN coalesce(pending.created_at <= k.wait_at OR low.committed IS NOT NULL AND pending.created_at <= k.expired_at, false)
                    ELSE coalesce(head.created_at <= k.old_at OR head.seq <= low.committed AND head.created_at <= k.done_at, false)
                  END AS work
          FROM (SELECT q.id,
                       statement_timestamp() - make_interval(secs => least(nullif(q.max_wait_time_seconds, 0), 3153600000)) AS wait_at,
                       statement_timestamp() - make_interval(secs => least(nullif(q.expire_after_seconds, 0), 3153600000)) AS expired_at,
                       statement_timestamp() - make_interval(secs => CASE WHEN q.retention_enabled THEN least(nullif(q.retention_seconds, 0), 3153600000) END) AS old_at,
                       statement_timestamp() - make_interval(secs => least(nullif(CASE WHEN q.retention_enabled THEN q.completed_retention_seconds ELSE $5::bigint END, 0), 3153600000)) AS done_at
                  FROM belfry.queue q WHERE q.id = $1::bigint AND q.deleted_at IS NULL OFFSET 0) AS k
         CROSS JOIN LATERAL (
                SELECT p.id, p.name, p.trimmed, greatest(p.swept, p.trimmed) AS swept
                  FROM belfry.partition p
                 WHERE p.queue_id = k.id AND p.name >= $2::text
                 ORDER BY p.name
                 LIMIT $3::bigint) AS p
          LEFT JOIN LATERAL (
                SELECT min(c.committed) AS committed FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS low ON true
          LEFT JOIN LATERAL (
                SELECT m.seq, m.created_at FROM belfry.message m
                 WHERE NOT $4::boolean AND m.partition_id = p.id AND m.seq > p.swept
                 ORDER BY m.seq
                 LIMIT 1) AS head ON true
          LEFT JOIN LATERAL (
                SELECT m.created_at FROM belfry.message m
                 WHERE $4::boolean AND m.partition_id = p.id AND m.seq > greatest(low.committed, p.trimmed)
                 ORDER BY m.seq
                 LIMIT 1) AS pending ON true) AS s
HAVING count(*) > 0
