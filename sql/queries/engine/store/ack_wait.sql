-- Locks the cursor of an ack, and waits for the session that has locked it. $1 partition id, $2 group
-- name. The statement reads only the newest version of the row; see sql/schema/partition.sql.
SELECT c.group_id
  FROM (SELECT p.id, p.queue_id FROM belfry.partition p
         WHERE p.id >= $1::bigint AND p.id <= $1::bigint
         ORDER BY p.id DESC
         LIMIT 1) AS p
 CROSS JOIN LATERAL (
        SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND g.name = $2::text OFFSET 0) AS g
 CROSS JOIN LATERAL (
        SELECT c.group_id FROM belfry.cursor c
         WHERE c.partition_id = p.id AND c.group_id >= g.id AND c.group_id <= g.id
         ORDER BY c.group_id DESC
         LIMIT 1
           FOR NO KEY UPDATE) AS c
