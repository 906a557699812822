-- Stores dead letters of queue $1 (id). By array: $2 uids of partitions, $3 transaction ids, $4 groups, $5
-- error texts, $6 attempts, $7 instants. A cursor before a dead letter skips it.
WITH stored AS (
    INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, failed_at, error)
    SELECT p.id, m.seq, g.id, d.attempts, d.failed_at, d.error
      FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::timestamptz[])
               AS d(uid, transaction_id, group_name, error, attempts, failed_at)
      JOIN belfry.partition p ON p.uid = d.uid AND p.queue_id = $1::bigint
      JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = d.transaction_id
      JOIN belfry.consumer_group g ON g.queue_id = $1::bigint AND g.name = d.group_name
    ON CONFLICT (partition_id, group_id, seq) DO NOTHING
    RETURNING partition_id, group_id, seq
)
UPDATE belfry.cursor c
   SET skip = coalesce(c.skip, '{}') + (
            SELECT range_agg(int8range(s.seq, s.seq + 1)) FROM stored s
             WHERE s.partition_id = c.partition_id AND s.group_id = c.group_id AND s.seq > c.committed)
 WHERE (c.partition_id, c.group_id) IN (SELECT s.partition_id, s.group_id FROM stored s WHERE s.seq > c.committed)
