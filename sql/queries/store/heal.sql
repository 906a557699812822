-- Finds partitions that owe a wake, by what is true (last_seq > committed, or
-- redriven messages), not by ready_at. $1: look above this partition id, $2: how
-- many partitions to look at. Returns the partitions to wake and where to go on; no
-- row at the end.
SELECT max(s.id) AS upto,
       coalesce(array_agg(s.id) FILTER (WHERE s.owes), '{}') AS partition_ids
  FROM (SELECT p.id, EXISTS (
                SELECT 1 FROM belfry.cursor c
                 WHERE c.partition_id = p.id AND belfry.needs_wake(c.ready_at, c.committed, p.last_seq, c.redrives, c.lease_id)) AS owes
          FROM belfry.partition p
         WHERE p.id > $1::bigint
         ORDER BY p.id
         LIMIT $2::bigint) AS s
HAVING count(*) > 0
