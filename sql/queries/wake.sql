-- Sets ready_at where a partition has messages beyond a cursor, or redriven ones,
-- and the cursor says that it has none. What was stored before a group's start is
-- passed over (cursor.start_at). Runs after the commit of whatever may have caused
-- that (I3; the proof is in pkg/store/doc.go). Waits for cursor locks in the one
-- order everybody waits in. $1: partition ids. Returns what became ready. It does
-- not wait for the disk: a crash that forgets it breaks every connection, and that
-- heals.
WITH candidate AS MATERIALIZED (
    SELECT k.id AS partition_id, c.group_id, p.last_seq, p.last_push_at, p.visible_until,
           q.delayed_processing, q.window_buffer
      FROM (SELECT set_config('synchronous_commit', 'off', true)) AS async
     CROSS JOIN unnest($1::bigint[]) AS k(id)
     CROSS JOIN LATERAL (
            SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p WHERE p.id = k.id OFFSET 0) AS p
     CROSS JOIN LATERAL (
            SELECT c.group_id FROM belfry.cursor c
             WHERE c.partition_id = k.id AND c.ready_at IS NULL AND (c.committed < p.last_seq OR c.redrives > 0) OFFSET 0) AS c
     CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = c.group_id OFFSET 0) AS g
     CROSS JOIN LATERAL (
            SELECT q.delayed_processing, q.window_buffer, q.paused
              FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE NOT q.paused AND NOT g.paused
), held AS MATERIALIZED (
    SELECT c.partition_id, c.group_id, c.committed, c.redrives, c.ready_at, c.retry_at, c.start_at,
           k.last_seq, k.last_push_at, k.visible_until, k.delayed_processing, k.window_buffer
      FROM candidate k
      JOIN belfry.cursor c ON c.partition_id = k.partition_id AND c.group_id = k.group_id
     WHERE c.partition_id = ANY ($1::bigint[])
     ORDER BY c.partition_id, c.group_id
       FOR NO KEY UPDATE OF c
)
UPDATE belfry.cursor c
   SET ready_at = belfry.ready_at(h.partition_id, k.committed, h.last_seq, h.last_push_at, h.visible_until,
                                  h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives),
       committed = k.committed,
       start_at = CASE WHEN k.committed >= h.last_seq THEN h.start_at END
  FROM held h
 CROSS JOIN LATERAL (
        SELECT CASE WHEN h.start_at IS NULL THEN h.committed
                    WHEN h.last_push_at <= h.start_at THEN h.last_seq
                    ELSE greatest(h.committed, belfry.seq_at(h.partition_id, h.start_at)) END AS committed) AS k
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.partition_id = h.partition_id AND c.group_id = h.group_id
   AND h.ready_at IS NULL AND (h.committed < h.last_seq OR h.redrives > 0)
RETURNING c.group_id, c.partition_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in
