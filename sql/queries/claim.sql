-- One pop: takes the lease of up to $3 due partitions of group $1 (or of
-- partition $2 alone) and reads up to $4 messages from them.
-- $5: the lease id; NULL consumes on delivery (autoAck). A lease that a crash of
-- the database forgets is harmless, so its commit does not wait for the disk.
-- Returns rows of several kinds:
--   'group'    always one: does the group still exist, and was anything due when
--              the statement began
--   'tried'    a partition read from. One that is not 'leased' too was due, but
--              no message was in sight: see settle.sql
--   'leased'   a partition whose messages are delivered
--   'moved'    a partition that is not poppable yet; its ready_at was put right
--   'message'  a delivered message
-- coalesce keeps a look at one partition off the index by ready_at, where it
-- would walk everything that is due.
WITH any_due AS (
    SELECT c.partition_id, c.committed, c.skip
      FROM belfry.cursor c
     WHERE $2::bigint IS NULL AND c.group_id = $1::bigint AND c.ready_at <= statement_timestamp()
     ORDER BY c.ready_at
     LIMIT $3::bigint
       FOR NO KEY UPDATE SKIP LOCKED
), one_due AS (
    SELECT c.partition_id, c.committed, c.skip
      FROM belfry.cursor c
     WHERE c.partition_id = $2::bigint AND c.group_id = $1::bigint
       AND coalesce(c.ready_at <= statement_timestamp(), false)
       FOR NO KEY UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT a.partition_id, a.committed, a.skip FROM any_due a
    UNION ALL
    SELECT o.partition_id, o.committed, o.skip FROM one_due o
), fact AS MATERIALIZED (
    SELECT row_number() OVER () AS place, h.partition_id, h.committed, h.skip, p.last_seq, p.last_push_at, p.visible_until,
           q.delayed_processing, q.window_buffer, q.paused OR g.paused AS paused, q.lease_time,
           q.delayed_processing = 0 AND coalesce(p.visible_until <= statement_timestamp(), true) AS all_visible,
           belfry.ready_at(h.partition_id, h.committed, p.last_seq, p.last_push_at, p.visible_until,
                           q.delayed_processing, q.window_buffer, q.paused OR g.paused) AS ready_at
      FROM held h
     CROSS JOIN LATERAL (
            SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p WHERE p.id = h.partition_id OFFSET 0) AS p
     CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = $1::bigint OFFSET 0) AS g
     CROSS JOIN LATERAL (
            SELECT q.delayed_processing, q.window_buffer, q.paused, q.lease_time
              FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
), share AS MATERIALIZED (
    SELECT f.place, f.partition_id, f.committed, f.skip, f.ready_at <= statement_timestamp() AS poppable,
           least(f.last_seq - f.committed,
                 $4::bigint - coalesce(sum(CASE WHEN f.ready_at <= statement_timestamp() THEN f.last_seq - f.committed END)
                    OVER (ORDER BY f.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS take,
           CASE WHEN f.all_visible THEN 9223372036854775807
                ELSE (SELECT coalesce(min(v.seq), 9223372036854775807)
                        FROM (SELECT m.seq, m.created_at, m.visible_at
                                FROM belfry.message m
                               WHERE m.partition_id = f.partition_id AND m.seq > f.committed
                               ORDER BY m.seq
                               LIMIT $4::bigint) AS v
                       WHERE v.visible_at > statement_timestamp()
                          OR v.created_at > statement_timestamp() - make_interval(secs => f.delayed_processing))
           END AS hidden_from
      FROM fact f
), msg AS MATERIALIZED (
    SELECT s.partition_id, m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.encrypted
      FROM share s
     CROSS JOIN LATERAL (
            SELECT d.seq, d.id, d.transaction_id, d.trace_id, d.payload, d.created_at, d.producer_sub, d.encrypted
              FROM belfry.message d
             WHERE d.partition_id = s.partition_id AND d.seq > s.committed AND d.seq < s.hidden_from
               AND (s.skip IS NULL OR d.seq <> ALL (s.skip))
             ORDER BY d.seq
             LIMIT s.take) AS m
     WHERE s.poppable AND s.take > 0
), got AS (
    SELECT m.partition_id, max(m.seq) AS upto, count(*) AS n
      FROM msg m
     GROUP BY m.partition_id
), leased AS (
    UPDATE belfry.cursor c
       SET lease_id = $5::uuid,
           lease_until = CASE WHEN $5::uuid IS NOT NULL
                THEN statement_timestamp() + make_interval(secs => coalesce(nullif(f.lease_time, 0), 60)) END,
           lease_end = CASE WHEN $5::uuid IS NOT NULL THEN got.upto END,
           ready_at = CASE WHEN $5::uuid IS NOT NULL
                THEN statement_timestamp() + make_interval(secs => coalesce(nullif(f.lease_time, 0), 60))
                ELSE belfry.ready_at(f.partition_id, got.upto, f.last_seq, f.last_push_at, f.visible_until,
                                     f.delayed_processing, f.window_buffer, f.paused) END,
           attempts = CASE WHEN $5::uuid IS NOT NULL THEN c.attempts + 1 ELSE 0 END,
           failures = CASE WHEN $5::uuid IS NOT NULL THEN c.failures ELSE 0 END,
           committed = CASE WHEN $5::uuid IS NOT NULL THEN c.committed ELSE got.upto END,
           skip = CASE WHEN $5::uuid IS NOT NULL THEN c.skip
                ELSE (SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(c.skip) AS s(seq) WHERE s.seq > got.upto) END,
           consumed = c.consumed + CASE WHEN $5::uuid IS NOT NULL THEN 0 ELSE got.n END,
           consumed_at = CASE WHEN $5::uuid IS NOT NULL THEN c.consumed_at ELSE statement_timestamp() END
      FROM got
      JOIN fact f ON f.partition_id = got.partition_id
     WHERE c.partition_id = ANY (ARRAY (SELECT i.partition_id FROM got i))
       AND c.partition_id = got.partition_id AND c.group_id = $1::bigint
    RETURNING c.partition_id, c.ready_at, c.attempts
), moved AS (
    UPDATE belfry.cursor c
       SET ready_at = f.ready_at, lease_id = NULL, lease_until = NULL, lease_end = NULL
      FROM fact f
     WHERE c.partition_id = ANY (ARRAY (SELECT i.partition_id FROM fact i))
       AND c.partition_id = f.partition_id AND c.group_id = $1::bigint
       AND (f.ready_at IS NULL OR f.ready_at > statement_timestamp())
    RETURNING c.partition_id, c.ready_at
)
SELECT 'group' AS kind, NULL::bigint AS partition_id,
       coalesce((SELECT q.deleted_at IS NULL FROM belfry.queue q
                  WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = $1::bigint)), false) AS group_exists,
       CASE WHEN $2::bigint IS NULL
            THEN (SELECT c.ready_at FROM belfry.cursor c
                   WHERE c.group_id = $1::bigint AND c.ready_at <= statement_timestamp()
                   ORDER BY c.ready_at
                   LIMIT 1) IS NOT NULL
            ELSE EXISTS (SELECT 1 FROM belfry.cursor c
                          WHERE c.partition_id = $2::bigint AND c.group_id = $1::bigint
                            AND coalesce(c.ready_at <= statement_timestamp(), false))
       END AS was_due,
       CASE WHEN $5::uuid IS NOT NULL THEN set_config('synchronous_commit', 'off', true) END AS durability,
       NULL::timestamptz AS ready_at, NULL::integer AS attempts,
       NULL::bigint AS seq, NULL::uuid AS id, NULL::text AS transaction_id, NULL::uuid AS trace_id, NULL::json AS payload,
       NULL::timestamptz AS created_at, NULL::text AS producer_sub, NULL::boolean AS encrypted
UNION ALL
SELECT 'tried', s.partition_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM share s
 WHERE s.poppable AND s.take > 0
UNION ALL
SELECT 'leased', l.partition_id, NULL, NULL, NULL, l.ready_at, l.attempts, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM leased l
UNION ALL
SELECT 'moved', v.partition_id, NULL, NULL, NULL, v.ready_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM moved v
UNION ALL
SELECT 'message', m.partition_id, NULL, NULL, NULL, NULL, NULL, m.seq, m.id, m.transaction_id, m.trace_id, m.payload,
       m.created_at, m.producer_sub, m.encrypted
  FROM msg m
