-- Counts the traces named $1, of queues whose names match a LIKE pattern of $2 (NULL: any). $3: at most so many (NULL: all).
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
