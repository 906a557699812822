-- Reads the first $2 schedules after the name $1, by name. allowed: the queue matches a pattern of LIKE in $3, or $3 is NULL.
SELECT s.name, s.queue, s.partition, s.cron, s.every_seconds, s.at, s.zone, s.starts, s.ends,
       (extract(epoch FROM s.jitter) * 1000000)::bigint AS jitter, s.missed, s.overlap_group, s.payload::text, s.headers::text,
       (extract(epoch FROM s.delay) * 1000000)::bigint AS delay, s.paused, s.pause_reason, CASE WHEN NOT s.paused THEN s.next_at END AS next_at,
       s.last_at, s.last_transaction_id, s.error, pg_get_userbyid(s.scheduled_by) AS scheduled_by, s.created_at, s.changed_at, s.handled_to,
       $3::text[] IS NULL OR s.queue COLLATE "C" LIKE ANY ($3::text[]) AS allowed
  FROM belfry.schedule s
 WHERE s.name > $1::text
 ORDER BY s.name LIMIT $2::bigint
