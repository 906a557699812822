-- Returns the id of the oldest row of the inbox (0: none) and its age in seconds. Counts the waiting and
-- the rejected rows, at most $1 of each. queue, code and reason describe the oldest rejected row.
SELECT coalesce(w.id, 0)::bigint AS id, coalesce(extract(epoch FROM clock_timestamp() - w.inserted_at), 0)::float8 AS seconds,
       (SELECT count(*) FROM (SELECT 1 FROM belfry.inbox i LIMIT $1::bigint) AS c) AS waiting,
       (SELECT count(*) FROM (SELECT 1 FROM belfry.inbox_rejected j LIMIT $1::bigint) AS c) AS rejected,
       coalesce(r.queue, '') AS queue, coalesce(r.code, '') AS code, coalesce(r.reason, '') AS reason
  FROM (SELECT 1) AS one
  LEFT JOIN LATERAL (SELECT i.id, i.inserted_at FROM belfry.inbox i ORDER BY i.id LIMIT 1) AS w ON true
  LEFT JOIN LATERAL (SELECT j.queue, j.code, j.reason FROM belfry.inbox_rejected j ORDER BY j.id LIMIT 1) AS r ON true
