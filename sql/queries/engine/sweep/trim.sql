-- Runs one step of a sweep; see belfry.sweep_partition. $1 queue, $2 partition, $3 evict, $4 messages at
-- most, $5 p_above or NULL, $6 completedRetentionSeconds of a queue without retentionEnabled. The step
-- locks the partition and then waits for the cursors, and a SQL consumer may have locked a cursor for
-- long. So the step gives up after it has waited 100 ms for a lock.
SELECT t.retention, t.completed, t.evicted, t.expired, t.unread, t.skipped, t.more, t.seen, t.groups, t.ready_in
  FROM (SELECT set_config('lock_timeout', '100', true) AS patience) AS l
 CROSS JOIN LATERAL belfry.sweep_partition(CASE WHEN l.patience IS NOT NULL THEN $1::bigint END, $2::bigint, $3::boolean, $4::bigint, $5::bigint, $6::bigint) AS t
