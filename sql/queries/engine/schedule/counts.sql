-- Counts the schedules with an error, at most $1. Also returns how many seconds the schedule that is due longest is late
-- (0: none). A schedule whose instants are not computed yet is late since its last change.
SELECT (SELECT count(*) FROM (SELECT 1 FROM belfry.schedule s WHERE s.error IS NOT NULL LIMIT $1::bigint) AS e) AS errors,
       greatest(0, extract(epoch FROM statement_timestamp() - least(
           (SELECT s.due_at FROM belfry.schedule s
             WHERE s.due_at > '-infinity' AND s.due_at <= statement_timestamp() ORDER BY s.due_at, s.id LIMIT 1),
           (SELECT s.changed_at FROM belfry.schedule s WHERE s.due_at <= '-infinity' ORDER BY s.due_at, s.id LIMIT 1))))::float8 AS late
