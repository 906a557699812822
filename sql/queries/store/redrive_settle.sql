-- Writes the decisions of an ack about redriven messages. By message: $1 partition ids, $2 group
-- ids, $3 seqs, $4 failures (-1: settled), $5 retry delay in seconds (0: none).
WITH said AS MATERIALIZED (
    SELECT s.partition_id, s.group_id, s.seq, s.failures, s.wait
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::float8[])
           AS s(partition_id, group_id, seq, failures, wait)
), failed AS (
    UPDATE belfry.redrive r
       SET failures = s.failures,
           retry_at = CASE WHEN s.wait > 0 THEN statement_timestamp() + make_interval(secs => s.wait) END
      FROM said s
     WHERE s.failures >= 0 AND r.partition_id = ANY ($1::bigint[]) AND r.partition_id = s.partition_id AND r.group_id = s.group_id AND r.seq = s.seq
)
DELETE FROM belfry.redrive r
 USING said s
 WHERE s.failures < 0 AND r.partition_id = ANY ($1::bigint[]) AND r.partition_id = s.partition_id AND r.group_id = s.group_id AND r.seq = s.seq
