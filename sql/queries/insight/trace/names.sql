-- Lists the names of traces, the last used name first, with their numbers of traces and messages. $1:
-- names at most. $2: names to skip. $3: LIKE patterns of queue names (NULL: any). It reads one index
-- entry for each name, and counts traces only for the returned names. total is the number of all names.
-- If no name is returned, one row has only total.
WITH RECURSIVE walk AS (
    (SELECT n.name FROM belfry.trace_name n ORDER BY n.name LIMIT 1)
    UNION ALL
    SELECT (SELECT n.name FROM belfry.trace_name n WHERE n.name > w.name ORDER BY n.name LIMIT 1)
      FROM walk w
     WHERE w.name IS NOT NULL
), seen AS MATERIALIZED (
    SELECT w.name, l.created_at AS last_seen
      FROM walk w
     CROSS JOIN LATERAL (
            SELECT n.created_at FROM belfry.trace_name n WHERE n.name = w.name
               AND ($3::text[] IS NULL OR (
                    SELECT q.name COLLATE "C" FROM belfry.trace t
                      JOIN belfry.partition p ON p.id = t.partition_id
                      JOIN belfry.queue q ON q.id = p.queue_id
                     WHERE t.id = n.trace_id) LIKE ANY ($3::text[]))
             ORDER BY n.created_at DESC
             LIMIT 1) AS l
     WHERE w.name IS NOT NULL
)
SELECT a.total, s.name, s.last_seen, c.traces, c.messages
  FROM (SELECT count(*) AS total FROM seen) AS a
  LEFT JOIN (
        SELECT s.name, s.last_seen FROM seen s ORDER BY s.last_seen DESC, s.name LIMIT $1::bigint OFFSET $2::bigint) AS s ON true
  LEFT JOIN LATERAL (
        SELECT count(*) AS traces, count(DISTINCT (t.partition_id, t.seq)) AS messages
          FROM belfry.trace_name n
          JOIN belfry.trace t ON t.id = n.trace_id
         WHERE n.name = s.name
           AND ($3::text[] IS NULL OR (
                SELECT q.name COLLATE "C" FROM belfry.trace t
                  JOIN belfry.partition p ON p.id = t.partition_id
                  JOIN belfry.queue q ON q.id = p.queue_id
                 WHERE t.id = n.trace_id) LIKE ANY ($3::text[]))) AS c ON true
 ORDER BY s.last_seen DESC, s.name
