-- Computes ready_at again after an option changed, for the cursors of partitions $1 and groups $2
-- (pairs) that have no live lease. An earlier statement of the transaction locked the cursors
-- (recompute_ready_lock.sql, recompute_ready_wait.sql). So this snapshot contains the commits of all
-- transactions that had locked the cursors before. A wake must follow the commit. This statement skips
-- the cursors that wait for the start of their group. The wake handles these cursors.
--
-- A retry delay stays, unless the retry_delay of the queue is 0 now. A blocked cursor stays blocked. The retry delay of a redriven
-- message also stays if the cursor has a live lease.
WITH unleased AS MATERIALIZED (
    SELECT k.ctid, d.partition_id, d.group_id
      FROM unnest($1::bigint[], $2::bigint[]) AS d(partition_id, group_id)
     CROSS JOIN LATERAL (
            SELECT c.ctid, c.lease_until, c.start_at FROM belfry.cursor c
             WHERE c.partition_id = d.partition_id AND c.group_id >= d.group_id AND c.group_id <= d.group_id
             ORDER BY c.group_id DESC
             LIMIT 1) AS k
     WHERE (k.lease_until IS NULL OR k.lease_until <= statement_timestamp()) AND k.start_at IS NULL
), delays_off AS (
    UPDATE belfry.redrive r
       SET retry_at = NULL
      FROM unleased u
     WHERE r.partition_id = ANY ($1::bigint[]) AND r.partition_id = u.partition_id AND r.group_id = u.group_id
       AND r.retry_at IS NOT NULL
       AND (SELECT q.retry_delay FROM belfry.queue q
             WHERE q.id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = u.partition_id)) = 0
)
UPDATE belfry.cursor c
   SET ready_at = belfry.ready_at(u.partition_id, c.committed, p.last_seq, p.last_push_at, p.visible_until,
                                  q.delayed_processing, q.window_buffer,
                                  CASE WHEN q.retry_delay > 0 OR c.retry_at = belfry.blocked() THEN c.retry_at END, c.redrives,
                                  CASE WHEN q.retry_delay > 0 THEN u.group_id END),
       retry_at = CASE WHEN q.retry_delay > 0 OR c.retry_at = belfry.blocked() THEN c.retry_at END,
       lease_id = NULL, lease_until = NULL, lease_end = NULL
  FROM unleased u
  CROSS JOIN LATERAL (
         SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
           FROM belfry.partition p WHERE p.id = u.partition_id OFFSET 0) AS p
  CROSS JOIN LATERAL (
         SELECT q.delayed_processing, q.window_buffer, q.retry_delay
           FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
 WHERE c.ctid = u.ctid
