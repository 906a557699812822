-- Opens ($3) or closes the breaker of the group $2 in the queue $1 for $4 microseconds, with the reason $5; see belfry.change_breaker.
SELECT c.changed, c.configured, c.until, c.group_id
  FROM belfry.change_breaker($1::text, $2::text, $3::boolean, $4::bigint * interval '1 microsecond', $5::text) AS c
