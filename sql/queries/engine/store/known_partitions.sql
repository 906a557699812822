-- Reads partitions by name. By array: $1 queue names, $2 partition names. The ids are valid in the
-- returned epoch.
SELECT p.id, p.uid, p.name, p.queue_id, q.name AS queue_name, q.encryption_enabled AS sealed, q.max_size > 0 AS bounded, belfry.epoch() AS epoch
  FROM unnest($1::text[], $2::text[]) AS w(queue_name, partition_name)
 CROSS JOIN LATERAL (
        SELECT q.id, q.name, q.encryption_enabled, q.max_size FROM belfry.queue q
         WHERE q.name = w.queue_name AND q.deleted_at IS NULL OFFSET 0) AS q
 CROSS JOIN LATERAL (
        SELECT a.id, a.uid, a.name, a.queue_id FROM belfry.partition a
         WHERE a.queue_id = q.id AND a.name = w.partition_name AND NOT a.closed OFFSET 0) AS p
