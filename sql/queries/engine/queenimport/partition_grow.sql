-- Partition $1 has messages up to $2, the newest stored at $3. Updates no row if it grew meanwhile: $4 is
-- what it had.
UPDATE belfry.partition p SET last_seq = $2::bigint, last_push_at = $3::timestamptz
 WHERE p.id = $1::bigint AND p.last_seq = $4::bigint AND NOT p.closed
