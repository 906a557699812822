-- One step of a sweep, as migration 000009 tells. $1 queue, $2 partition, $3
-- evict, $4 messages at most, $5 look again above this seq, or NULL.
SELECT t.retention, t.completed, t.evicted, t.expired, t.unread, t.more, t.seen, t.groups, t.ready_in
  FROM belfry.trim($1::bigint, $2::bigint, $3::boolean, $4::bigint, $5::bigint) AS t
