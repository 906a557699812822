-- The cursors of group $1 in partitions of queue $2 above id $3, $4 at most, in
-- id order. Of each lagging one it reads one message, the first that is not
-- consumed.
SELECT p.id, p.name, c.consumed, c.consumed_at, CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_id END AS lease_id,
       coalesce(p.last_seq - head.seq + 1 - (SELECT count(s.seq) FROM unnest(c.skip) AS s(seq) WHERE s.seq > head.seq), 0) AS lag,
       coalesce(extract(epoch FROM statement_timestamp() - head.created_at), 0)::float8 AS age, c.expired
  FROM (SELECT p.id, p.name, p.last_seq
          FROM belfry.partition p
         WHERE p.queue_id = $2::bigint AND p.id > $3::bigint
         ORDER BY p.id) AS p
 CROSS JOIN LATERAL (
        SELECT c.committed, c.skip, c.consumed, c.expired, c.consumed_at, c.lease_id, c.lease_until
          FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = $1::bigint OFFSET 0) AS c
  LEFT JOIN LATERAL (
        SELECT m.seq, m.created_at FROM belfry.message m
         WHERE c.committed < p.last_seq AND m.partition_id = p.id AND m.seq > c.committed
           AND (c.skip IS NULL OR m.seq <> ALL (c.skip))
         ORDER BY m.seq
         LIMIT 1) AS head ON true
 ORDER BY p.id
 LIMIT $4::bigint
