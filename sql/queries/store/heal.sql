-- Finds partitions that need a wake by their data and not by ready_at. $1: examine partitions above
-- this id. $2: number of partitions. Returns the partitions to wake, and the id to continue from.
-- No row: the end.
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
