-- Finds those cursors of an ack that somebody holds. $1 partition ids, $2 group
-- names (distinct pairs). Returns their places (from 1). It waits for nobody, and
-- what it locks it lets go at its end.
WITH wanted AS MATERIALIZED (
    SELECT w.ord, w.partition_id, g.id AS group_id
      FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS w(partition_id, group_name, ord)
     CROSS JOIN LATERAL (SELECT p.queue_id FROM belfry.partition p WHERE p.id = w.partition_id OFFSET 0) AS p
     CROSS JOIN LATERAL (
            SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND g.name = w.group_name OFFSET 0) AS g
     CROSS JOIN LATERAL (
            SELECT c.group_id FROM belfry.cursor c WHERE c.partition_id = w.partition_id AND c.group_id = g.id OFFSET 0) AS c
), free AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM wanted w
      JOIN belfry.cursor c ON c.partition_id = w.partition_id AND c.group_id = w.group_id
       FOR NO KEY UPDATE OF c SKIP LOCKED
)
SELECT w.ord
  FROM wanted w
 WHERE NOT EXISTS (SELECT 1 FROM free f WHERE f.partition_id = w.partition_id AND f.group_id = w.group_id)
 ORDER BY w.ord
