-- Lists at most $3 pairs of a namespace and a task that queues have, after the pair ($1, $2). If $1 and
-- $2 are empty, the list starts at the first pair. The pair of two empty tags is left out. It reads one
-- entry of the index queue_tags for each pair.
WITH RECURSIVE pair(namespace, task, n) AS (
    (SELECT q.namespace, q.task, 1::bigint FROM belfry.queue q
      WHERE q.deleted_at IS NULL AND (q.namespace, q.task) > ($1::text, $2::text)
      ORDER BY q.namespace, q.task
      LIMIT 1)
    UNION ALL
    SELECT next.namespace, next.task, p.n + 1
      FROM pair p
     CROSS JOIN LATERAL (
            SELECT q.namespace, q.task FROM belfry.queue q
             WHERE q.deleted_at IS NULL AND (q.namespace, q.task) > (p.namespace, p.task)
             ORDER BY q.namespace, q.task
             LIMIT 1) AS next
     WHERE p.n < $3::bigint
)
SELECT p.namespace, p.task FROM pair p ORDER BY p.n
