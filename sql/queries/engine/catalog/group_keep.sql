-- Stores the mode and the start of a group that was just deleted. $1 queue, $2 name, $3 mode, $4 start,
-- $5 creation.
INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, created_at, kept)
VALUES ($1::bigint, $2::text, $3::text, $4::timestamptz, $5::timestamptz, true)
