-- Counts the unfinished messages of the cursors in a page of partitions, by group. Redriven messages
-- that are not settled count too. $1: partitions above this id. $2: partitions at most. upto is the $1
-- of the next page. A row without a group is for partitions without cursors. No row: no partition is
-- left. For each lagging cursor it reads the first unconsumed message and the first redriven message.
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
               nullif(coalesce(p.last_seq - head.seq + 1
                               - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
                      + coalesce(c.redrives, 0), 0) AS lag,
               extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at)) AS age
          FROM page p
          LEFT JOIN LATERAL (
                SELECT c.group_id, c.committed, c.skip, c.redrives, c.consumed_at
                  FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS c ON true
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
       ) AS s
 GROUP BY s.group_id
