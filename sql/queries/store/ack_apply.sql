-- Writes the decisions of an ack, one row for each cursor. The cursors are locked. By array: $1
-- partition ids, $2 group ids, $3 new committed, $4 new failures, $5 attempts, $6 release the
-- lease, $7 number of finished messages, $8 skip lists, $9 seconds until failed messages may be
-- delivered again (0: at once). $8 has texts such as '{3,5}', because an array of arrays must be
-- rectangular.
--
-- Before the start of a group (start_at), nothing of the log is ready. Returns the seconds until
-- each released cursor is ready (NULL: it is not). asleep: the cursor has no ready_at, and needs a
-- wake after the commit.
UPDATE belfry.cursor c
   SET committed = greatest(c.committed, d.committed),
       failures = d.failures,
       attempts = d.attempts,
       skip = nullif(d.skip::bigint[], '{}'),
       consumed = c.consumed + d.done,
       consumed_at = CASE WHEN d.done > 0 THEN statement_timestamp() ELSE c.consumed_at END,
       lease_id = CASE WHEN d.release THEN NULL ELSE c.lease_id END,
       lease_until = CASE WHEN d.release THEN NULL ELSE c.lease_until END,
       lease_end = CASE WHEN d.release THEN NULL ELSE c.lease_end END,
       retry_at = CASE
            WHEN d.wait > 0 THEN statement_timestamp() + make_interval(secs => d.wait)
            WHEN d.committed <= c.committed THEN c.retry_at END,
       ready_at = CASE WHEN d.release
            THEN belfry.ready_at(d.partition_id, d.committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END,
                                 p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer, q.paused OR g.paused,
                                 CASE
                                     WHEN d.wait > 0 THEN statement_timestamp() + make_interval(secs => d.wait)
                                     WHEN d.committed <= c.committed THEN c.retry_at END, c.redrives, c.group_id)
            ELSE c.ready_at END
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::integer[], $6::boolean[], $7::bigint[], $8::text[],
              $9::float8[])
       AS d(partition_id, group_id, committed, failures, attempts, release, done, skip, wait)
  CROSS JOIN LATERAL (
         SELECT k.ctid FROM belfry.cursor k
          WHERE k.partition_id = d.partition_id AND k.group_id >= d.group_id AND k.group_id <= d.group_id
          ORDER BY k.group_id DESC
          LIMIT 1) AS k
  CROSS JOIN LATERAL (
         SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
           FROM belfry.partition p
          WHERE p.id >= d.partition_id AND p.id <= d.partition_id
          ORDER BY p.id DESC
          LIMIT 1) AS p
  CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = d.group_id OFFSET 0) AS g
  CROSS JOIN LATERAL (
         SELECT q.delayed_processing, q.window_buffer, q.paused
           FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
 WHERE c.ctid = k.ctid
RETURNING c.group_id, c.partition_id,
          CASE WHEN d.release THEN extract(epoch FROM c.ready_at - statement_timestamp())::float8 END AS ready_in,
          c.ready_at, c.ready_at IS NULL AS asleep
