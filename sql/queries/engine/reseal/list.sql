-- Lists messages of the queue $1 by partition name and seq, at most $4. It starts after the seq $3 in
-- the partition named $2. It does not read payloads, so bytes may be too high; see delivery_bytes.
SELECT p.id AS partition_id, p.name AS partition_name, m.seq, m.id, m.transaction_id, m.bytes
  FROM belfry.partition p
 CROSS JOIN LATERAL (
        SELECT m.seq, m.id, m.transaction_id, belfry.delivery_bytes(m.payload, m.transaction_id, NULL, NULL, false)::bigint AS bytes
          FROM belfry.message m
         WHERE m.partition_id = p.id AND m.seq > CASE WHEN p.name = $2::text THEN $3::bigint ELSE 0 END
         ORDER BY m.seq
         LIMIT $4::bigint) AS m
 WHERE p.queue_id = $1::bigint AND p.name >= $2::text
 ORDER BY p.name, m.seq
 LIMIT $4::bigint
