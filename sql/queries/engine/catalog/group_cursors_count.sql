-- Counts the cursors of group $1 in partitions of queue $2 above id $3, and examines at most $4
-- partitions. Returns the id of the last examined partition. No row: no partition is left.
SELECT max(p.id) AS upto, count(c.group_id) AS cursors
  FROM (SELECT p.id
          FROM belfry.partition p
         WHERE p.queue_id = $2::bigint AND p.id > $3::bigint
         ORDER BY p.id
         LIMIT $4::bigint) AS p
  LEFT JOIN LATERAL (
        SELECT c.group_id FROM belfry.cursor c
         WHERE c.partition_id = p.id AND c.group_id = $1::bigint OFFSET 0) AS c ON true
HAVING count(*) > 0
