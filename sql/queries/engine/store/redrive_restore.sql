-- Restores redriven messages that an autoAck pop settled and could not deliver. $1 group id. By cursor:
-- $2 partition ids, $3 the settled redrives from belfry.redeliver. A deleted cursor gets no messages
-- back. A cursor with a new lease is ready when that lease ends. For each other cursor, returns the
-- seconds until the cursor is ready.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($2::bigint[]) AND c.group_id = $1::bigint
     ORDER BY c.partition_id
       FOR NO KEY UPDATE
), back AS (
    INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts, deliveries, redriven_at)
    SELECT h.partition_id, h.group_id, i.seq, i.failures, i.attempts, i.deliveries, i.redriven_at
      FROM held h
      JOIN unnest($2::bigint[], $3::text[]) AS k(partition_id, settled) ON k.partition_id = h.partition_id
     CROSS JOIN LATERAL json_to_recordset(k.settled::json)
           AS i(seq bigint, failures integer, attempts integer, deliveries integer, redriven_at timestamptz)
    ON CONFLICT (partition_id, group_id, seq) DO NOTHING
    RETURNING partition_id
)
UPDATE belfry.cursor c
   SET redrives = coalesce(c.redrives, 0) + n.n,
       ready_at = CASE WHEN c.lease_id IS NULL THEN least(c.ready_at, statement_timestamp()) ELSE c.ready_at END
  FROM (SELECT b.partition_id, count(*) AS n FROM back b GROUP BY b.partition_id) AS n
 WHERE c.partition_id = ANY ($2::bigint[]) AND c.partition_id = n.partition_id AND c.group_id = $1::bigint
RETURNING c.group_id, c.partition_id,
          CASE WHEN c.lease_id IS NULL THEN extract(epoch FROM c.ready_at - statement_timestamp())::float8 END AS ready_in, c.ready_at
