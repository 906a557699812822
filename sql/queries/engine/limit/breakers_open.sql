-- Counts the breakers that are not closed, at most $1. The breaker of a group whose limits have none any more does not count.
SELECT count(*)
  FROM (SELECT 1
          FROM belfry.breaker b
          JOIN belfry.consumer_group g ON g.id = b.group_id
         WHERE b.opened_at IS NOT NULL AND belfry.has_breaker(g.limits_id)
         LIMIT $1::bigint) AS o
