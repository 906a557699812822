-- Reads the names of the groups $1 with their queues, and of the partitions $2 (0: none). Returns one
-- row for each pair, with its position from 1. The name of a missing row is NULL.
SELECT k.ord, q.name AS queue_name, g.name AS group_name, p.name AS partition_name
  FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k(group_id, partition_id, ord)
  LEFT JOIN LATERAL (SELECT g.name, g.queue_id FROM belfry.consumer_group g WHERE g.id = k.group_id OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id OFFSET 0) AS q ON true
  LEFT JOIN LATERAL (SELECT p.name FROM belfry.partition p WHERE p.id = k.partition_id OFFSET 0) AS p ON true
 ORDER BY k.ord
