-- Stores the mode and the start of a group that was just deleted. $1 queue, $2 name, $3 mode, $4 start,
-- $5 creation. The next group of this name has the limits of the name.
INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, created_at, kept, limits_id)
VALUES ($1::bigint, $2::text, $3::text, $4::timestamptz, $5::timestamptz, true, belfry.limits_of($1::bigint, $2::text))
