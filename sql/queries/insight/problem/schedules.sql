-- Lists schedules with an error, and schedules that have been due for $1 seconds. It examines at most $2 of each kind, the latest
-- and by name. $3: LIKE patterns of queue names (NULL: any). error is NULL for a late schedule. age is how late it is, in
-- seconds (NULL: it has an error). A schedule whose instants are not computed yet is late since its last change.
SELECT f.name, f.queue, f.error, f.age
  FROM (SELECT s.name, s.queue, NULL AS error,
               extract(epoch FROM statement_timestamp() - CASE WHEN s.due_at > '-infinity' THEN s.due_at ELSE s.changed_at END)::float8 AS age
          FROM (SELECT d.name, d.queue, d.due_at, d.changed_at
                  FROM belfry.schedule d WHERE d.due_at <= statement_timestamp() - make_interval(secs => $1::float8)
                 ORDER BY d.due_at, d.id
                 LIMIT $2::bigint) AS s
        UNION ALL
        SELECT e.name, e.queue, e.error, NULL
          FROM (SELECT s.name, s.queue, s.error FROM belfry.schedule s WHERE s.error IS NOT NULL ORDER BY s.name LIMIT $2::bigint) AS e) AS f
 WHERE (f.age IS NULL OR f.age >= $1::float8) AND ($3::text[] IS NULL OR f.queue COLLATE "C" LIKE ANY ($3::text[]))
