-- Tries to lock the cursors of an ack or a transaction without waiting. Returns the cursors that another
-- session has locked, in (partition, group) order. $1 partition ids, $2 group names (distinct pairs), $3
-- lease ids: the cursors with these leases are included.
WITH wanted AS MATERIALIZED (
    SELECT w.partition_id, g.id AS group_id, w.group_name AS name
      FROM unnest($1::bigint[], $2::text[]) AS w(partition_id, group_name)
     CROSS JOIN LATERAL (SELECT p.queue_id FROM belfry.partition p WHERE p.id = w.partition_id OFFSET 0) AS p
     CROSS JOIN LATERAL (
            SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND g.name = w.group_name OFFSET 0) AS g
     CROSS JOIN LATERAL (
            SELECT c.group_id FROM belfry.cursor c WHERE c.partition_id = w.partition_id AND c.group_id = g.id OFFSET 0) AS c
    UNION
    SELECT h.partition_id, h.group_id, g.name
      FROM unnest($3::uuid[]) AS l(id)
     CROSS JOIN LATERAL (
            SELECT h.partition_id, h.group_id FROM belfry.cursor h WHERE h.lease_id = l.id OFFSET 0) AS h
     CROSS JOIN LATERAL (
            SELECT g.name FROM belfry.consumer_group g WHERE g.id = h.group_id OFFSET 0) AS g
), free AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM wanted w
      JOIN belfry.cursor c ON c.partition_id = w.partition_id AND c.group_id = w.group_id
       FOR NO KEY UPDATE OF c SKIP LOCKED
)
SELECT w.partition_id, w.name
  FROM wanted w
 WHERE NOT EXISTS (SELECT 1 FROM free f WHERE f.partition_id = w.partition_id AND f.group_id = w.group_id)
 ORDER BY w.partition_id, w.group_id
