-- Parks messages. By array: $1 partition ids, $2 seqs, $3 group ids, $4 attempts, $5 error texts. A
-- message that is parked already stays as it is. A deleted message is not parked.
INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
SELECT d.partition_id, d.seq, d.group_id, d.attempts, d.error
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::text[])
       AS d(partition_id, seq, group_id, attempts, error)
 WHERE (SELECT true FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq)
 ORDER BY d.partition_id, d.group_id, d.seq
ON CONFLICT (partition_id, group_id, seq) DO NOTHING
