-- Lists the traces of a message, the oldest first, at most $3. $1 uid of the partition, $2
-- transaction id. $4 and $5: only traces after this created_at and id, or NULL.
SELECT t.id, t.created_at, t.group_name, t.event_type, t.worker, t.names, t.data
  FROM belfry.partition p
  JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $2::text
 CROSS JOIN LATERAL (
        SELECT t.id, t.created_at, t.group_name, t.event_type, t.worker, t.names, t.data
          FROM belfry.trace t
         WHERE t.partition_id = p.id AND t.seq = m.seq AND ($4::timestamptz IS NULL OR (t.created_at, t.id) > ($4::timestamptz, $5::uuid))
         ORDER BY t.created_at, t.id
         LIMIT $3::bigint) AS t
 WHERE p.uid = $1::uuid AND NOT p.closed
 ORDER BY t.created_at, t.id
