-- Reads which readers the queues $1 have: queue_mode says whether a reader without a group exists, and
-- groups is the number of named groups.
SELECT coalesce(bool_or(g.name = '__QUEUE_MODE__'), false) AS queue_mode,
       count(DISTINCT g.name) FILTER (WHERE g.name <> '__QUEUE_MODE__') AS groups
  FROM unnest($1::bigint[]) AS k(queue_id)
 CROSS JOIN LATERAL (
        SELECT g.name FROM belfry.consumer_group g WHERE g.queue_id = k.queue_id OFFSET 0) AS g
