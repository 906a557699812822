-- Registers a consumer group: see the function. $1 queue, $2 group, $3 partition
-- or NULL for the whole queue, $4 mode, $5 start of mode timestamp.
SELECT j.queue_id, j.group_id, j.cursors_made
  FROM belfry.join_group($1::text, $2::text, $3::text, $4::text, $5::timestamptz) AS j
