-- Reads messages of partition $1 with seqs above $2, at most $3.
SELECT m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.encrypted, m.producer_sub
  FROM belfry.message m
 WHERE m.partition_id = $1::bigint AND m.seq > $2::bigint
 ORDER BY m.seq
 LIMIT $3::bigint
