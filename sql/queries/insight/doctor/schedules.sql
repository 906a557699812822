-- Lists schedules with an error, and schedules that have been due for $1 seconds, the latest first. At most ten rows of each kind.
-- error is empty for a late schedule. seconds is how late it is. number counts the schedules of the same kind, at most 1,000. A
-- schedule whose instants are not computed yet is late since its last change.
SELECT l.name, l.queue, '' AS error, extract(epoch FROM statement_timestamp() - l.since)::float8 AS seconds, l.number
  FROM (SELECT d.name, d.queue, d.since, count(*) OVER () AS number
          FROM (SELECT s.name, s.queue, CASE WHEN s.due_at > '-infinity' THEN s.due_at ELSE s.changed_at END AS since
                  FROM belfry.schedule s WHERE s.due_at <= statement_timestamp() - make_interval(secs => $1::float8)
                 ORDER BY s.due_at, s.id
                 LIMIT 1000) AS d
         WHERE d.since <= statement_timestamp() - make_interval(secs => $1::float8)
         ORDER BY d.since
         LIMIT 10) AS l
UNION ALL
SELECT f.name, f.queue, f.error, 0, f.number
  FROM (SELECT e.name, e.queue, e.error, count(*) OVER () AS number
          FROM (SELECT s.name, s.queue, s.error FROM belfry.schedule s WHERE s.error IS NOT NULL ORDER BY s.name LIMIT 1000) AS e
         ORDER BY e.name
         LIMIT 10) AS f
