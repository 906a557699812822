-- Registers a consumer group: see the function. $1 queue, $2 group, $3 partition
-- or NULL for the whole queue, $4 mode, $5 start of mode timestamp, $6 how many
-- seconds ago the pop came: what was stored since is new.
SELECT j.queue_id, j.group_id, j.cursors_made
  FROM belfry.join_group($1::text, $2::text, $3::text, $4::text,
                         CASE WHEN $4::text = 'new' THEN clock_timestamp() - make_interval(secs => $6::float8) ELSE $5::timestamptz END) AS j
