-- Reads partitions by id ($1) or by uid ($2). The ids are valid in the returned epoch.
SELECT p.id, p.uid, p.name, p.queue_id, q.name AS queue_name, q.encryption_enabled AS sealed, q.max_size > 0 AS bounded, belfry.epoch() AS epoch
  FROM (SELECT a.id, a.uid, a.name, a.queue_id
          FROM belfry.partition a WHERE a.id = ANY ($1::bigint[]) AND NOT a.closed
        UNION ALL
        SELECT b.id, b.uid, b.name, b.queue_id
          FROM belfry.partition b WHERE b.uid = ANY ($2::uuid[]) AND NOT b.closed) AS p
 CROSS JOIN LATERAL (
        SELECT q.name, q.encryption_enabled, q.max_size FROM belfry.queue q
         WHERE q.id = p.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
