-- One step of a sweep, as migration 000009 tells. $1 queue, $2 partition, $3
-- evict, $4 messages at most, $5 look again above this seq, or NULL. It holds the
-- partition while it waits for its cursors, so it gives up after a tenth of a second: a
-- consumer in SQL holds one for as long as its transaction lasts.
SELECT t.retention, t.completed, t.evicted, t.expired, t.unread, t.skipped, t.more, t.seen, t.groups, t.ready_in
  FROM (SELECT set_config('lock_timeout', '100', true) AS patience) AS l
 CROSS JOIN LATERAL belfry.sweep_partition(CASE WHEN l.patience IS NOT NULL THEN $1::bigint END, $2::bigint, $3::boolean, $4::bigint, $5::bigint) AS t
