-- Moves the instant of the message with transaction id $2 in the partition with uid $1; see belfry.move_message. The new
-- instant is $3, or $4 seconds from now. Both NULL: now. The statement gives up after $5 milliseconds, because a
-- SQL consumer may have locked a cursor for long.
SELECT d.refused, d.group_name, d.before, d.after, d.group_ids, d.ready_in
  FROM (SELECT set_config('lock_timeout', $5::bigint::text, true) AS patience) AS l
 CROSS JOIN LATERAL belfry.move_message(
       CASE WHEN l.patience IS NOT NULL THEN (SELECT p.id FROM belfry.partition p WHERE p.uid = $1::uuid) END, $2::text,
       coalesce($3::timestamptz, clock_timestamp() + make_interval(secs => $4::float8))) AS d
