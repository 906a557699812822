-- Counts the traces named $1. $2: LIKE patterns of queue names (NULL: any). $3: the highest count (NULL:
-- no limit).
SELECT count(*) AS n
  FROM (SELECT 1
          FROM belfry.trace_name n
         WHERE n.name = $1::text
           AND ($2::text[] IS NULL OR (
                SELECT q.name COLLATE "C" FROM belfry.trace t
                  JOIN belfry.partition p ON p.id = t.partition_id
                  JOIN belfry.queue q ON q.id = p.queue_id
                 WHERE t.id = n.trace_id) LIKE ANY ($2::text[]))
         LIMIT $3::bigint) AS s
