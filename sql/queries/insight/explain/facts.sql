-- Reads the facts that decide whether a consumer group receives messages of a partition. $1 queue, $2
-- partition, $3 group, $4 transaction id of a message (NULL: no message), $5 completedRetentionSeconds
-- of queues without retentionEnabled. Returns one row. The columns of a missing queue, partition, group,
-- cursor or message are NULL. The cost does not grow with the number of partitions. It grows with the
-- number of dead letters that the cursor skips.
--
-- front is the first message after the cursor. head is the first message that a pop would deliver: it is
-- not dead-lettered and has not expired. second is the message after head, if head reached
-- maxDeliveries. blocked_at is the last failed attempt of head, if the cursor is blocked. again is the first redriven message. own is the redrive of the message $4.
SELECT statement_timestamp() AS now, q.id IS NOT NULL AS queue_exists, p.id IS NOT NULL AS partition_exists, g.id IS NOT NULL AS group_exists,
       c.partition_id IS NOT NULL AS cursor_exists, q.namespace, q.task, q.paused AS queue_paused, p.paused AS partition_paused,
       g.paused AS group_paused, q.delayed_processing, q.expire_after_seconds, q.max_deliveries, q.retention_seconds,
       q.completed_retention_seconds, q.max_wait_time_seconds, p.last_push_at + make_interval(secs => nullif(q.window_buffer, 0)) AS window_end,
       g.start_at AS group_start, c.start_at, c.ready_at, c.retry_at, c.lease_until, c.lease_end, c.attempts, c.failures, c.committed, c.expired,
       p.last_seq - c.committed - coalesce(belfry.skipped_after(c.skip, 0), 0) + coalesce(c.redrives, 0) AS lag,
       front.seq AS front_seq, front.transaction_id AS front_transaction, front.created_at AS front_created, front.visible_at AS front_visible,
       head.seq AS head_seq, head.transaction_id AS head_transaction, head.created_at AS head_created, head.visible_at AS head_visible,
       second.seq AS second_seq, second.transaction_id AS second_transaction, second.created_at AS second_created, second.visible_at AS second_visible,
       again.seq AS again_seq, again.transaction_id AS again_transaction, again.retry_at AS again_retry, again.failures AS again_failures,
       m.seq, m.transaction_id, m.created_at, m.visible_at, m.seq <@ c.skip AS skipped, d.failed_at, d.error,
       own.seq IS NOT NULL AS redriven, own.lease_id = c.lease_id AS own_lease, own.failures AS own_failures, own.attempts AS own_attempts,
       own.retry_at AS own_retry, own.redriven_at, c.consumed_at, m.headers::text AS headers,
       coalesce(c.retry_at = belfry.blocked(), false) AS blocked,
       CASE WHEN c.retry_at = belfry.blocked() THEN (
            SELECT a.failed_at FROM belfry.attempt a
             WHERE a.partition_id = p.id AND a.seq = head.seq AND a.group_id = g.id
             ORDER BY a.nth DESC LIMIT 1) END AS blocked_at,
       belfry.on_exhausted(g.id) AS on_exhausted
  FROM (SELECT $1::text AS queue) AS asked
  LEFT JOIN LATERAL (
        SELECT q.id, q.namespace, q.task, q.paused, q.delayed_processing, q.window_buffer, q.expire_after_seconds, q.max_deliveries,
               CASE WHEN q.retention_enabled THEN q.retention_seconds END AS retention_seconds,
               CASE WHEN q.retention_enabled THEN q.completed_retention_seconds ELSE $5::bigint END AS completed_retention_seconds, q.max_wait_time_seconds,
               statement_timestamp() - make_interval(secs => nullif(q.expire_after_seconds, 0)) AS expired_before
          FROM belfry.queue q WHERE q.name = asked.queue AND q.deleted_at IS NULL OFFSET 0) AS q ON true
  LEFT JOIN LATERAL (
        SELECT p.id, p.paused, p.last_seq, p.last_push_at
          FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = $2::text AND NOT p.closed OFFSET 0) AS p ON true
  LEFT JOIN LATERAL (
        SELECT g.id, g.paused, CASE WHEN g.mode <> 'all' THEN coalesce(g.start_at, g.created_at) END AS start_at
          FROM belfry.consumer_group g WHERE g.queue_id = q.id AND g.name = $3::text OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (
        SELECT c.partition_id, c.committed, c.skip, c.redrives, c.start_at, c.ready_at, c.retry_at, c.lease_id, c.lease_until, c.lease_end,
               c.attempts, c.failures, c.expired, c.consumed_at
          FROM belfry.cursor c
         WHERE c.partition_id = p.id AND c.group_id >= g.id AND c.group_id <= g.id
         ORDER BY c.group_id DESC
         LIMIT 1) AS c ON true
  LEFT JOIN LATERAL (
        SELECT m.seq, m.transaction_id, m.created_at, m.visible_at
          FROM belfry.message m
         WHERE m.partition_id = p.id AND m.seq > c.committed
         ORDER BY m.seq
         LIMIT 1) AS front ON true
  LEFT JOIN LATERAL (
        SELECT m.seq, m.transaction_id, m.created_at, m.visible_at
          FROM belfry.message m
         WHERE m.partition_id = p.id AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
           AND m.seq > CASE WHEN front.created_at <= q.expired_before THEN belfry.seq_at(p.id, q.expired_before) ELSE c.committed END
         ORDER BY m.seq
         LIMIT 1) AS head ON true
  LEFT JOIN LATERAL (
        SELECT m.seq, m.transaction_id, m.created_at, m.visible_at
          FROM belfry.message m
         WHERE c.attempts >= nullif(q.max_deliveries, 0) AND m.partition_id = p.id AND m.seq > coalesce(belfry.passed(head.seq, c.skip), head.seq)
         ORDER BY m.seq
         LIMIT 1) AS second ON true
  LEFT JOIN LATERAL (
        SELECT r.seq, m.transaction_id, r.retry_at, r.failures
          FROM belfry.redrive r
          JOIN belfry.message m ON m.partition_id = r.partition_id AND m.seq = r.seq
         WHERE c.redrives > 0 AND r.partition_id = p.id AND r.group_id = g.id
           AND (r.retry_at > statement_timestamp() OR coalesce(r.deliveries < nullif(q.max_deliveries, 0), true))
         ORDER BY r.seq
         LIMIT 1) AS again ON true
  LEFT JOIN LATERAL (
        SELECT m.seq, m.transaction_id, m.created_at, m.visible_at, m.headers
          FROM belfry.message m WHERE m.partition_id = p.id AND m.transaction_id = $4::text OFFSET 0) AS m ON true
  LEFT JOIN LATERAL (
        SELECT d.failed_at, d.error
          FROM belfry.dead_letter d WHERE d.partition_id = p.id AND d.group_id = g.id AND d.seq = m.seq OFFSET 0) AS d ON true
  LEFT JOIN LATERAL (
        SELECT r.seq, r.lease_id, r.failures, r.attempts, r.retry_at, r.redriven_at
          FROM belfry.redrive r WHERE r.partition_id = p.id AND r.group_id = g.id AND r.seq = m.seq OFFSET 0) AS own ON true
