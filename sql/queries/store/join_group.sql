-- Registers a consumer group: see the function. $1 queue, $2 group, $3 partition
-- or NULL for the whole queue, $4 mode, $5 start of mode timestamp, $6 how many
-- seconds ago the pop came: what was stored since is new; $7 how many seconds ago its
-- group turned out to be deleted, else as $6: what was stored before that is not,
-- unless the queue was made since the pop came.
SELECT j.queue_id, j.group_id, j.cursors_made
  FROM belfry.join_group($1::text, $2::text, $3::text, $4::text,
                         CASE WHEN $4::text = 'new' THEN clock_timestamp() - make_interval(secs => CASE
                                  WHEN (SELECT q.created_at FROM belfry.queue q WHERE q.name = $1::text AND q.deleted_at IS NULL)
                                       > clock_timestamp() - make_interval(secs => $6::float8)
                                  THEN $6::float8 ELSE $7::float8 END)
                              ELSE $5::timestamptz END) AS j
