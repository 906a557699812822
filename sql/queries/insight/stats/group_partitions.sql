-- Lists the cursors of group $1 in partitions of queue $2 above id $3, at most $4, in id order. Redriven
-- messages that are not settled count as lag. For each lagging cursor it reads the first unconsumed
-- message and the first redriven message.
SELECT p.id, p.name, c.consumed, c.consumed_at, CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_id END AS lease_id,
       coalesce(p.last_seq - head.seq + 1 - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
       + coalesce(c.redrives, 0) AS lag,
       coalesce(extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at)), 0)::float8 AS age, c.expired
  FROM (SELECT p.id, p.name, p.last_seq
          FROM belfry.partition p
         WHERE p.queue_id = $2::bigint AND p.id > $3::bigint
         ORDER BY p.id) AS p
 CROSS JOIN LATERAL (
        SELECT c.group_id, c.committed, c.skip, c.redrives, c.consumed, c.expired, c.consumed_at, c.lease_id, c.lease_until
          FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = $1::bigint OFFSET 0) AS c
  LEFT JOIN LATERAL (
        SELECT m.seq, m.created_at FROM belfry.message m
         WHERE c.committed < p.last_seq AND m.partition_id = p.id AND m.seq > c.committed
           AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
         ORDER BY m.seq
         LIMIT 1) AS head ON true
  LEFT JOIN LATERAL (
        SELECT (SELECT m.created_at FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) AS created_at
          FROM belfry.redrive r
         WHERE c.redrives > 0 AND r.partition_id = p.id AND r.group_id = c.group_id
         ORDER BY r.seq
         LIMIT 1) AS put ON true
 ORDER BY p.id
 LIMIT $4::bigint
