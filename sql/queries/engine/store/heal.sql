-- Finds partitions that need a wake: it compares last_seq with committed. Examines at most $3 cursors
-- after partition $1 and group $2, in the order of (partition, group). Returns the partitions to wake,
-- the number of examined cursors, and the last examined cursor. No row: no cursor is left. The cost
-- grows only with $3.
WITH page AS MATERIALIZED (
    SELECT c.partition_id, c.group_id, c.ready_at, c.committed, c.redrives, c.lease_id
      FROM belfry.cursor c
     WHERE (c.partition_id, c.group_id) > ($1::bigint, $2::bigint)
     ORDER BY c.partition_id, c.group_id
     LIMIT $3::bigint
)
SELECT last.partition_id, last.group_id, (SELECT count(*) FROM page) AS cursors, ARRAY (
        SELECT DISTINCT s.partition_id
          FROM page s
         CROSS JOIN LATERAL (
                SELECT p.last_seq FROM belfry.partition p
                 WHERE p.id >= s.partition_id AND p.id <= s.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         WHERE (s.ready_at IS NULL OR s.redrives > 0)
           AND belfry.needs_wake(s.ready_at, s.committed, p.last_seq, s.redrives, s.lease_id)
         ORDER BY 1) AS partition_ids
  FROM page AS last
 ORDER BY last.partition_id DESC, last.group_id DESC
 LIMIT 1
