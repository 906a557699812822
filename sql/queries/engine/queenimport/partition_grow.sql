-- Sets the last seq of partition $1 to $2, and the instant of the last push to $3. $4 is the last seq
-- that the caller saw. Updates no row if the last seq has changed since.
UPDATE belfry.partition p SET last_seq = $2::bigint, last_push_at = $3::timestamptz
 WHERE p.id = $1::bigint AND p.last_seq = $4::bigint AND NOT p.closed
