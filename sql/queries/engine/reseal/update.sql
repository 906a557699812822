-- Replaces payloads by encrypted envelopes. By array: $1 partition ids, $2 seqs, $3 message ids, $4
-- envelopes. Returns the positions of the updated messages in the arrays. It skips a message that
-- another transaction has locked.
UPDATE belfry.message m
   SET payload = n.payload::json, encrypted = true
  FROM (SELECT l.partition_id, l.seq, k.payload, k.ord
          FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[]) WITH ORDINALITY AS k(partition_id, seq, id, payload, ord)
          JOIN belfry.message l ON l.partition_id = k.partition_id AND l.seq = k.seq AND l.id = k.id
           FOR NO KEY UPDATE OF l SKIP LOCKED) AS n
 WHERE m.partition_id = n.partition_id AND m.seq = n.seq
RETURNING n.ord
