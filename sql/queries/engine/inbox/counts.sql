-- Counts the waiting and the rejected rows of the inbox, at most $1 of each. Also returns the age in
-- seconds of the oldest waiting row (0: none).
SELECT (SELECT count(*) FROM (SELECT 1 FROM belfry.inbox i LIMIT $1::bigint) AS w) AS waiting,
       (SELECT count(*) FROM (SELECT 1 FROM belfry.inbox_rejected r LIMIT $1::bigint) AS w) AS rejected,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - i.inserted_at)
                   FROM belfry.inbox i ORDER BY i.id LIMIT 1), 0)::float8 AS oldest
