-- Writes what an ack says of redriven messages. By message: $1 partition ids,
-- $2 group ids, $3 seqs, $4 failures, or -1 for one that is settled.
WITH said AS MATERIALIZED (
    SELECT s.partition_id, s.group_id, s.seq, s.failures
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[]) AS s(partition_id, group_id, seq, failures)
), failed AS (
    UPDATE belfry.redrive r
       SET failures = s.failures
      FROM said s
     WHERE s.failures >= 0 AND r.partition_id = ANY ($1::bigint[]) AND r.partition_id = s.partition_id AND r.group_id = s.group_id AND r.seq = s.seq
)
DELETE FROM belfry.redrive r
 USING said s
 WHERE s.failures < 0 AND r.partition_id = ANY ($1::bigint[]) AND r.partition_id = s.partition_id AND r.group_id = s.group_id AND r.seq = s.seq
