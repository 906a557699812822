-- Lists cursors of group $1 by ready_at, the earliest first. $2 is the list: due (cursors that are due),
-- leased (cursors with a live lease) or resting (other cursors whose ready_at is in the future). $3: the
-- first ready_at (NULL: any). $4: leave out this many cursors whose ready_at is $3. $5: cursors at most.
-- $6: examined cursors at most.
--
-- If no cursor is found, it returns one row without a name. examined is the number of examined cursors.
-- last_at and last_tie are the ready_at and the tie of the last examined cursor. tie numbers the cursors
-- with the same ready_at. cause says why a resting cursor is not due (NULL: unknown).
WITH examined AS MATERIALIZED (
    SELECT c.partition_id, c.committed, c.skip, c.redrives, c.ready_at, c.retry_at, c.lease_id, c.lease_until, c.lease_end, c.attempts,
           c.failures, c.consumed, c.consumed_at, c.expired, coalesce(c.lease_until > statement_timestamp(), false) AS live,
           row_number() OVER (ORDER BY c.ready_at) AS ord,
           row_number() OVER (ORDER BY c.ready_at) - rank() OVER (ORDER BY c.ready_at) + 1
           + CASE WHEN c.ready_at = $3::timestamptz THEN $4::bigint ELSE 0 END AS tie
      FROM (SELECT c.partition_id, c.committed, c.skip, c.redrives, c.ready_at, c.retry_at, c.lease_id, c.lease_until, c.lease_end, c.attempts,
                   c.failures, c.consumed, c.consumed_at, c.expired
              FROM belfry.cursor c
             WHERE c.group_id = $1::bigint
               AND c.ready_at >= CASE WHEN $2::text = 'due' THEN coalesce($3::timestamptz, '-infinity')
                                      ELSE greatest($3::timestamptz, statement_timestamp() + interval '1 microsecond') END
               AND c.ready_at <= CASE WHEN $2::text = 'due' THEN statement_timestamp() ELSE 'infinity' END
             ORDER BY c.ready_at
            OFFSET CASE WHEN $2::text = 'due' OR $3::timestamptz > statement_timestamp() THEN $4::bigint ELSE 0 END
             LIMIT $6::bigint) AS c
)
SELECT f.examined, f.last_at, f.last_tie, l.ready_at, l.tie, l.name, l.uid, l.paused, l.lag, l.age, l.lease_id, l.lease_until, l.held,
       l.attempts, l.failures, l.consumed, l.consumed_at, l.expired, l.cause, statement_timestamp() AS now
  FROM (SELECT count(*) AS examined, max(e.ready_at) AS last_at, (max(ARRAY[e.ord, e.tie]))[2] AS last_tie FROM examined e) AS f
  LEFT JOIN LATERAL (
        SELECT c.ord, c.ready_at, c.tie, p.name, p.uid, p.paused, c.lease_id, c.lease_until, c.attempts, c.failures, c.consumed, c.consumed_at,
               c.expired,
               CASE WHEN c.lease_end < 0 THEN -c.lease_end ELSE greatest(c.lease_end - c.committed, 0) END AS held,
               coalesce(p.last_seq - head.seq + 1 - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
               + coalesce(c.redrives, 0) AS lag,
               coalesce(extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at)), 0)::float8 AS age,
               CASE WHEN $2::text <> 'resting' THEN NULL
                    WHEN c.ready_at >= belfry.blocked() THEN 'blocked'
                    WHEN c.retry_at >= c.ready_at OR put.retry_at >= c.ready_at THEN 'retry'
                    WHEN q.window_buffer > 0 AND p.last_push_at + make_interval(secs => q.window_buffer) >= c.ready_at THEN 'window'
                    WHEN head.visible_at >= c.ready_at
                      OR q.delayed_processing > 0 AND head.created_at + make_interval(secs => q.delayed_processing) >= c.ready_at THEN 'delay'
                    END AS cause
          FROM (SELECT e.partition_id, e.committed, e.skip, e.redrives, e.ready_at, e.retry_at, e.lease_id, e.lease_until, e.lease_end, e.attempts,
                       e.failures, e.consumed, e.consumed_at, e.expired, e.ord, e.tie
                  FROM examined e
                 WHERE $2::text = 'due' OR e.live = ($2::text = 'leased')
                 ORDER BY e.ord
                 LIMIT $5::bigint) AS c
         CROSS JOIN LATERAL (
                SELECT p.queue_id, p.name, p.uid, p.paused, p.last_seq, p.last_push_at
                  FROM belfry.partition p
                 WHERE p.id >= c.partition_id AND p.id <= c.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         CROSS JOIN LATERAL (
                SELECT q.window_buffer, q.delayed_processing FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
          LEFT JOIN LATERAL (
                SELECT m.seq, m.created_at, m.visible_at FROM belfry.message m
                 WHERE m.partition_id = c.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                 ORDER BY m.seq
                 LIMIT 1) AS head ON true
          LEFT JOIN LATERAL (
                SELECT r.retry_at,
                       (SELECT m.created_at FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) AS created_at
                  FROM belfry.redrive r
                 WHERE c.redrives > 0 AND r.partition_id = c.partition_id AND r.group_id = $1::bigint
                 ORDER BY r.seq
                 LIMIT 1) AS put ON true) AS l ON true
 ORDER BY l.ord
