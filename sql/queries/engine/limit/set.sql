-- Sets the limits $3 of the group $2 in the queue $1, or removes them if $3 is NULL; see belfry.set_limits.
SELECT s.changed, s.queue_id, s.before, s.after
  FROM belfry.set_limits($1::text, $2::text, $3::json) AS s
