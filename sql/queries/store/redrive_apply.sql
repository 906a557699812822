-- Writes the result of an ack of redriven messages to the locked cursors, after ack_apply.sql. By
-- cursor: $1 partition ids, $2 group ids, $3 number of settled messages, $4 number of them that the
-- lease held, $5 release the lease. Returns the seconds until each released cursor is ready (NULL:
-- it is not).
UPDATE belfry.cursor c
   SET redrives = nullif(c.redrives - d.settled, 0),
       consumed_at = CASE WHEN d.settled > 0 THEN statement_timestamp() ELSE c.consumed_at END,
       lease_id = CASE WHEN d.release THEN NULL ELSE c.lease_id END,
       lease_until = CASE WHEN d.release THEN NULL ELSE c.lease_until END,
       lease_end = CASE WHEN d.release THEN NULL ELSE c.lease_end + d.held END,
       ready_at = CASE WHEN d.release
            THEN belfry.ready_at(d.partition_id, c.committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END,
                                 p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer, q.paused OR g.paused, c.retry_at,
                                 c.redrives - d.settled, c.group_id)
            ELSE c.ready_at END
  FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::boolean[])
       AS d(partition_id, group_id, settled, held, release)
  CROSS JOIN LATERAL (
         SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
           FROM belfry.partition p WHERE p.id = d.partition_id OFFSET 0) AS p
  CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = d.group_id OFFSET 0) AS g
  CROSS JOIN LATERAL (
         SELECT q.delayed_processing, q.window_buffer, q.paused
           FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.partition_id = d.partition_id AND c.group_id = d.group_id
RETURNING c.group_id, c.partition_id,
          CASE WHEN d.release THEN extract(epoch FROM c.ready_at - statement_timestamp())::float8 END AS ready_in, c.ready_at
