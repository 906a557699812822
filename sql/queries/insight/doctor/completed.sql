-- Lists the queues with messages that every group has passed. stored is the number of these messages
-- without deleted messages, and age is the seconds since the oldest was pushed. kept is the seconds
-- after which a sweep deletes such messages (0: never); it is $1 for queues without retentionEnabled.
-- row_bytes is the mean size of a message with its index entries. It examines at most 4,000 partitions
-- and returns the ten largest queues.
SELECT q.name, s.stored, s.age,
       CASE WHEN q.retention_enabled THEN coalesce(least(nullif(q.completed_retention_seconds, 0), nullif(q.retention_seconds, 0)), 0)
            ELSE $1::bigint END AS kept,
       (SELECT pg_total_relation_size(c.oid) / greatest(pg_stat_get_live_tuples(c.oid), 1)
          FROM pg_class c WHERE c.oid = to_regclass('belfry.message'))::bigint AS row_bytes
  FROM (SELECT p.queue_id, sum(greatest(least(low.committed, p.last_seq) - p.trimmed - p.holes, 0))::bigint AS stored,
               max(extract(epoch FROM statement_timestamp() - head.created_at))::float8 AS age
          FROM (SELECT p.id, p.queue_id, p.last_seq, p.trimmed, p.holes
                  FROM belfry.partition p WHERE p.last_seq > p.trimmed AND NOT p.closed LIMIT 4000) AS p
         CROSS JOIN LATERAL (
                SELECT min(c.committed) AS committed FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS low
         CROSS JOIN LATERAL (
                SELECT m.seq, m.created_at FROM belfry.message m
                 WHERE m.partition_id = p.id AND m.seq > p.trimmed
                 ORDER BY m.seq
                 LIMIT 1) AS head
         WHERE head.seq <= low.committed
         GROUP BY p.queue_id) AS s
 CROSS JOIN LATERAL (
        SELECT q.name, q.retention_enabled, q.completed_retention_seconds, q.retention_seconds
          FROM belfry.queue q WHERE q.id = s.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE s.stored > 0
 ORDER BY s.stored DESC
 LIMIT 10
