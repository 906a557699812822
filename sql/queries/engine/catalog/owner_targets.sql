-- Reads the names of groups ($1) with their queues, and of partitions ($2; 0: none). One row for each pair, by its
-- position from 1. Names of what does not exist are NULL.
SELECT k.ord, q.name AS queue_name, g.name AS group_name, p.name AS partition_name
  FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k(group_id, partition_id, ord)
  LEFT JOIN LATERAL (SELECT g.name, g.queue_id FROM belfry.consumer_group g WHERE g.id = k.group_id OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id OFFSET 0) AS q ON true
  LEFT JOIN LATERAL (SELECT p.name FROM belfry.partition p WHERE p.id = k.partition_id OFFSET 0) AS p ON true
 ORDER BY k.ord
