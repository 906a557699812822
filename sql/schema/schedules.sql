-- The schedules. A role sees the schedules that it made, or that a role made whose rights it has. A role
-- that may read belfry.schedule sees all of them.
CREATE VIEW belfry.schedules WITH (security_barrier) AS
SELECT s.name, s.queue, s.partition, s.cron, s.every_seconds * interval '1 second' AS every, s.at, s.zone, s.starts, s.ends, s.jitter,
       s.missed, s.overlap_group, s.payload, s.headers, s.delay, s.paused, s.pause_reason,
       CASE WHEN NOT s.paused THEN s.next_at END AS next_at, s.last_at, s.last_transaction_id, s.error,
       pg_catalog.pg_get_userbyid(s.scheduled_by) AS scheduled_by, s.created_at, s.changed_at
  FROM belfry.schedule s
 WHERE pg_catalog.has_table_privilege('belfry.schedule', 'SELECT') OR pg_catalog.pg_has_role(s.scheduled_by, 'USAGE');
