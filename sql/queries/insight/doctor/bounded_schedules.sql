-- Lists queues with a maxSize that have a schedule with a next instant, and the first such schedule. It examines the first
-- 1,000 queues that have schedules, by name, and returns at most 20 queues.
WITH RECURSIVE named(queue, n) AS (
    SELECT (SELECT s.queue FROM belfry.schedule s ORDER BY s.queue LIMIT 1), 1
    UNION ALL
    SELECT (SELECT s.queue FROM belfry.schedule s WHERE s.queue > k.queue ORDER BY s.queue LIMIT 1), k.n + 1
      FROM named k
     WHERE k.queue IS NOT NULL AND k.n < 1000
)
SELECT q.id, k.queue, s.name AS schedule
  FROM named k
 CROSS JOIN LATERAL (SELECT q.id FROM belfry.queue q WHERE q.name = k.queue AND q.deleted_at IS NULL AND q.max_size > 0 OFFSET 0) AS q
 CROSS JOIN LATERAL (
        SELECT s.name FROM belfry.schedule s
         WHERE s.queue = k.queue AND s.due_at IS NOT NULL ORDER BY s.name LIMIT 1) AS s
 ORDER BY k.n
 LIMIT 20
