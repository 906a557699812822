-- What the cursors of a page of partitions have left to do, by group: $1 look
-- above this partition id, $2 how many partitions. upto is where to go on; a
-- row without a group stands for partitions without cursors; no row at the end.
-- Of each lagging cursor it reads one message, the first that is not consumed.
WITH page AS MATERIALIZED (
    SELECT p.id, p.last_seq
      FROM belfry.partition p
     WHERE p.id > $1::bigint
     ORDER BY p.id
     LIMIT $2::bigint
)
SELECT (SELECT max(page.id) FROM page) AS upto, s.group_id, count(s.group_id) AS cursors, count(s.lag) AS lagging,
       coalesce(sum(s.lag), 0)::bigint AS lag, coalesce(max(s.age), 0)::float8 AS age, max(s.consumed_at) AS consumed_at
  FROM (SELECT c.group_id, c.consumed_at,
               p.last_seq - head.seq + 1 - (SELECT count(s.seq) FROM unnest(c.skip) AS s(seq) WHERE s.seq > head.seq) AS lag,
               extract(epoch FROM statement_timestamp() - head.created_at) AS age
          FROM page p
          LEFT JOIN LATERAL (
                SELECT c.group_id, c.committed, c.skip, c.consumed_at
                  FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS c ON true
          LEFT JOIN LATERAL (
                SELECT m.seq, m.created_at FROM belfry.message m
                 WHERE c.committed < p.last_seq AND m.partition_id = p.id AND m.seq > c.committed
                   AND (c.skip IS NULL OR m.seq <> ALL (c.skip))
                 ORDER BY m.seq
                 LIMIT 1) AS head ON true
       ) AS s
 GROUP BY s.group_id
