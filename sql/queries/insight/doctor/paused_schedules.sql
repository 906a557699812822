-- Lists at most ten paused queues that have a schedule with a next instant, and the first such schedule. number counts these
-- queues. It examines at most 500 paused queues. The cost grows with the paused schedules of these queues.
SELECT l.queue, l.schedule, l.number
  FROM (SELECT q.name AS queue, s.name AS schedule, count(*) OVER () AS number
          FROM (SELECT q.name FROM belfry.queue q WHERE q.paused AND q.deleted_at IS NULL ORDER BY q.id LIMIT 500) AS q
         CROSS JOIN LATERAL (
                SELECT s.name FROM belfry.schedule s
                 WHERE s.queue = q.name AND s.due_at IS NOT NULL ORDER BY s.name LIMIT 1) AS s
         ORDER BY q.name
         LIMIT 10) AS l
