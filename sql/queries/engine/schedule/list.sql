-- Reads the first $2 schedules after the name $1, by name. The queue must match a pattern of LIKE in $3, unless $3 is NULL. The
-- name must have the part $4 in any case.
SELECT s.name, s.queue, s.partition, s.cron, s.every_seconds, s.at, s.zone, s.starts, s.ends,
       (extract(epoch FROM s.jitter) * 1000000)::bigint AS jitter, s.missed, s.overlap_group, s.payload::text, s.headers::text,
       (extract(epoch FROM s.delay) * 1000000)::bigint AS delay, s.paused, s.pause_reason, CASE WHEN NOT s.paused THEN s.next_at END AS next_at,
       s.last_at, s.last_transaction_id, s.error, pg_get_userbyid(s.scheduled_by) AS scheduled_by, s.created_at, s.changed_at, s.handled_to,
       clock_timestamp() AS now
  FROM belfry.schedule s
 WHERE s.name > $1::text AND ($3::text[] IS NULL OR s.queue COLLATE "C" LIKE ANY ($3::text[]))
   AND ($4::text = '' OR position(lower($4::text) IN lower(s.name COLLATE "default")) > 0)
 ORDER BY s.name LIMIT $2::bigint
