-- Releases every lease with id $1 as if the lease had never existed. The delivery did not reach its
-- client, so the statement decrements the count of attempts, also of redriven messages. Returns the partitions with the
-- instants at which they are ready, and partition -1 for a group whose limits count leases.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, c.group_id, c.committed, c.lease_id, c.lease_end
      FROM belfry.cursor c
     WHERE c.lease_id = $1::uuid
     ORDER BY c.partition_id + 0, c.group_id -- + 0 avoids the order of an index
       FOR NO KEY UPDATE
), redelivered AS (
    UPDATE belfry.redrive r
       SET attempts = greatest(r.attempts - 1, 0), deliveries = greatest(r.deliveries - 1, 0)
      FROM held h
     WHERE r.partition_id = ANY (ARRAY (SELECT n.partition_id FROM held n WHERE n.lease_end < 0))
       AND r.partition_id = h.partition_id AND r.group_id = h.group_id AND r.lease_id = $1::uuid
), released AS (
    UPDATE belfry.cursor c
       SET lease_id = NULL, lease_until = NULL, lease_end = NULL,
           attempts = CASE WHEN h.lease_end < 0 THEN c.attempts ELSE greatest(c.attempts - 1, 0) END,
           ready_at = belfry.ready_at(h.partition_id, h.committed, p.last_seq, p.last_push_at, p.visible_until,
                                      q.delayed_processing, q.window_buffer, c.retry_at,
                                      c.redrives, c.group_id)
      FROM held h
      CROSS JOIN LATERAL (
             SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
               FROM belfry.partition p WHERE p.id = h.partition_id OFFSET 0) AS p
      CROSS JOIN LATERAL (
             SELECT q.delayed_processing, q.window_buffer
               FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE c.partition_id = h.partition_id AND c.group_id = h.group_id AND c.lease_id = $1::uuid
    RETURNING c.group_id, c.partition_id, c.ready_at
)
SELECT r.group_id, r.partition_id, extract(epoch FROM r.ready_at - statement_timestamp())::float8 AS ready_in, r.ready_at
  FROM released r
 UNION ALL
SELECT o.group_id, -1, 0, statement_timestamp()
  FROM (SELECT DISTINCT r.group_id FROM released r) AS o
 WHERE (SELECT g.limits_id IS NOT NULL AND belfry.counts_leases(g.limits_id) FROM belfry.consumer_group g WHERE g.id = o.group_id)
