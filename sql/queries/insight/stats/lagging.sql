-- Lists at most $4 cursors in a page of partitions whose first unfinished message is older than $3 seconds,
-- the oldest first. A redriven message that is not settled is unfinished. $1: partitions above this id. $2:
-- partitions at most. upto is the $1 of the next page. If the page has no such cursor, it returns one row
-- without a queue. No row: no partition is left. $5: LIKE patterns of queue names (NULL: any).
WITH page AS MATERIALIZED (
    SELECT p.id, p.queue_id, p.name, p.uid, p.last_seq
      FROM belfry.partition p
     WHERE p.id > $1::bigint
     ORDER BY p.id
     LIMIT $2::bigint
)
SELECT u.upto, l.queue_name, l.group_name, l.partition_name, l.uid, l.lease_id, l.lag, l.age, l.created_at, l.consumed_at
  FROM (SELECT max(page.id) AS upto FROM page) AS u
  LEFT JOIN LATERAL (
        SELECT q.name AS queue_name, g.name AS group_name, p.name AS partition_name, p.uid,
               CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_id END AS lease_id,
               coalesce(p.last_seq - head.seq + 1 - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
               + coalesce(c.redrives, 0) AS lag,
               extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at))::float8 AS age,
               least(head.created_at, put.created_at) AS created_at, c.consumed_at
          FROM page p
         CROSS JOIN LATERAL (
                SELECT c.group_id, c.committed, c.skip, c.redrives, c.consumed_at, c.lease_id, c.lease_until
                  FROM belfry.cursor c WHERE c.partition_id = p.id AND (c.committed < p.last_seq OR c.redrives > 0) OFFSET 0) AS c
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
         CROSS JOIN LATERAL (SELECT g.name FROM belfry.consumer_group g WHERE g.id = c.group_id OFFSET 0) AS g
         CROSS JOIN LATERAL (
                SELECT q.name FROM belfry.queue q WHERE q.id = p.queue_id AND q.deleted_at IS NULL
                    AND ($5::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($5::text[])) OFFSET 0) AS q
         WHERE least(head.created_at, put.created_at) < statement_timestamp() - make_interval(secs => $3::float8)
         ORDER BY least(head.created_at, put.created_at)
         LIMIT $4::bigint) AS l ON true
 WHERE u.upto IS NOT NULL
