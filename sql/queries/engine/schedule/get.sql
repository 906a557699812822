-- Reads the schedule $1. now: the clock of the database.
SELECT s.name, s.queue, s.partition, s.cron, s.every_seconds, s.at, s.zone, s.starts, s.ends,
       (extract(epoch FROM s.jitter) * 1000000)::bigint AS jitter, s.missed, s.overlap_group, s.payload::text, s.headers::text,
       (extract(epoch FROM s.delay) * 1000000)::bigint AS delay, s.paused, s.pause_reason, CASE WHEN NOT s.paused THEN s.next_at END AS next_at,
       s.last_at, s.last_transaction_id, s.error, pg_get_userbyid(s.scheduled_by) AS scheduled_by, s.created_at, s.changed_at, s.handled_to,
       clock_timestamp() AS now
  FROM belfry.schedule s
 WHERE s.name = $1::text
