-- Lists the names of the newest $4 traces, the last used name first, with their numbers of traces and
-- messages among these traces. $1: names at most. $2: names to skip. $3: LIKE patterns of queue names
-- (NULL: any). It has the columns of trace/names.sql. The order by id is the order by time. The cost
-- grows only with $4.
WITH named AS MATERIALIZED (
    SELECT n.name COLLATE "C" AS name, max(t.created_at) AS last_seen, count(*) AS traces, count(DISTINCT (t.partition_id, t.seq)) AS messages
      FROM (SELECT t.id, t.partition_id, t.seq, t.created_at, t.names FROM belfry.trace t ORDER BY t.id DESC LIMIT $4::bigint) AS t
     CROSS JOIN LATERAL unnest(t.names) AS n(name)
     WHERE $3::text[] IS NULL OR (
            SELECT q.name COLLATE "C" FROM belfry.partition p
              JOIN belfry.queue q ON q.id = p.queue_id
             WHERE p.id = t.partition_id) LIKE ANY ($3::text[])
     GROUP BY 1
)
SELECT a.total, s.name, s.last_seen, coalesce(s.traces, 0) AS traces, coalesce(s.messages, 0) AS messages
  FROM (SELECT count(*) AS total FROM named) AS a
  LEFT JOIN (
        SELECT n.name, n.last_seen, n.traces, n.messages FROM named n
         ORDER BY n.last_seen DESC, n.name
         LIMIT $1::bigint OFFSET $2::bigint) AS s ON true
 ORDER BY s.last_seen DESC, s.name
