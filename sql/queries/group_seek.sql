-- Moves the cursors of group $2 in partitions $1 behind the last message stored
-- at or before $3: 'infinity' is behind the last one, '-infinity' before the
-- first. Leases end, and what is first now has no attempts behind it. Moved back
-- (or not at all), the group gets dead letters again as it gets everything else;
-- moved forward, those beyond are still skipped. A wake must follow. Returns
-- where the cursors are.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, c.committed, c.skip
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($1::bigint[]) AND c.group_id = $2::bigint
     ORDER BY c.partition_id
       FOR NO KEY UPDATE
)
UPDATE belfry.cursor c
   SET committed = k.committed,
       skip = CASE WHEN k.committed > h.committed THEN (
            SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(h.skip) AS s(seq) WHERE s.seq > k.committed) END,
       attempts = 0, failures = 0, start_at = NULL, lease_id = NULL, lease_until = NULL, lease_end = NULL,
       ready_at = belfry.ready_at(h.partition_id, k.committed, p.last_seq, p.last_push_at, p.visible_until,
                                  q.delayed_processing, q.window_buffer, q.paused OR g.paused)
  FROM held h
  CROSS JOIN LATERAL (
         SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
           FROM belfry.partition p WHERE p.id = h.partition_id OFFSET 0) AS p
  CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = $2::bigint OFFSET 0) AS g
  CROSS JOIN LATERAL (
         SELECT q.delayed_processing, q.window_buffer, q.paused
           FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
  CROSS JOIN LATERAL (
         SELECT CASE WHEN $3::timestamptz = 'infinity' THEN greatest(h.committed, p.last_seq)
                     WHEN $3::timestamptz = '-infinity' THEN 0
                     WHEN p.last_push_at <= $3::timestamptz THEN p.last_seq
                     ELSE belfry.seq_at(h.partition_id, $3::timestamptz) END AS committed OFFSET 0) AS k
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.partition_id = h.partition_id AND c.group_id = $2::bigint
RETURNING c.committed
