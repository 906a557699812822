-- Lists groups of queue $1 by name. $2: the first name. $3: leave out the group $2 itself. $4: groups at most. $5: cursors
-- of each group at most. $6: dead letters of each group at most.
--
-- The column late says that an unfinished message is due or leased, and as old as belfry.late_after says with the default $7
-- in seconds. The figures of a group are sums over $5 cursors by ready_at, the earliest first, and over $5 paused partitions. more: the
-- group may have other cursors with messages left. lives: the group exists, and is not only the kept subscription of
-- a deleted group. The cost does not grow with the partitions.
SELECT g.id, g.name, g.mode, g.start_at, g.created_at, g.paused, g.joining,
       NOT g.kept OR n.examined > 0 OR coalesce((
            SELECT true
              FROM (SELECT p.id FROM belfry.partition p WHERE p.queue_id = $1::bigint ORDER BY p.name LIMIT $5::bigint) AS p
             CROSS JOIN LATERAL (
                    SELECT 1 FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = g.id OFFSET 0) AS c
             LIMIT 1), false) AS lives,
       n.examined >= $5::bigint OR n.stopped >= $5::bigint AS more,
       n.due, n.leased, n.resting, n.failing, n.held, n.lagging, n.lag, n.age, dead.n AS dead,
       coalesce(NOT g.paused AND n.due_age >= (SELECT belfry.late_after(q.max_wait_time_seconds, $7::float8)
                                                 FROM belfry.queue q WHERE q.id = $1::bigint AND NOT q.paused), false) AS late
  FROM (SELECT g.id, g.name, g.mode, g.start_at, g.created_at, g.paused, g.joined_upto IS NOT NULL AS joining,
               g.kept AND NOT g.whole_queue AS kept
          FROM belfry.consumer_group g
         WHERE g.queue_id = $1::bigint AND g.name >= $2::text AND NOT ($3::boolean AND g.name = $2::text)
         ORDER BY g.name
         LIMIT $4::bigint) AS g
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE c.ready_at IS NOT NULL) AS examined,
               count(*) FILTER (WHERE c.ready_at IS NULL) AS stopped,
               count(*) FILTER (WHERE NOT c.live AND c.ready_at <= statement_timestamp()) AS due,
               count(*) FILTER (WHERE c.live) AS leased,
               count(*) FILTER (WHERE NOT c.live AND c.ready_at > statement_timestamp()) AS resting,
               count(*) FILTER (WHERE c.failures > 0) AS failing,
               coalesce(sum(CASE WHEN NOT c.live THEN 0
                                 WHEN c.lease_end < 0 THEN -c.lease_end
                                 ELSE greatest(c.lease_end - c.committed, 0) END), 0)::bigint AS held,
               count(*) FILTER (WHERE s.lag > 0) AS lagging, coalesce(sum(s.lag), 0)::bigint AS lag, coalesce(max(s.age), 0)::float8 AS age,
               max(s.age) FILTER (WHERE c.live OR c.ready_at <= statement_timestamp()) AS due_age
          FROM (SELECT a.partition_id, a.committed, a.skip, a.redrives, a.ready_at, a.lease_end, a.failures,
                       coalesce(a.lease_until > statement_timestamp(), false) AS live
                  FROM (SELECT c.partition_id, c.committed, c.skip, c.redrives, c.ready_at, c.lease_until, c.lease_end, c.failures
                          FROM belfry.cursor c
                         WHERE c.group_id = g.id AND c.ready_at IS NOT NULL
                         ORDER BY c.ready_at
                         LIMIT $5::bigint) AS a
                UNION ALL
                SELECT c.partition_id, c.committed, c.skip, c.redrives, NULL, NULL, c.failures, false
                  FROM (SELECT p.id FROM belfry.partition p WHERE p.queue_id = $1::bigint AND p.paused LIMIT $5::bigint) AS p
                 CROSS JOIN LATERAL (
                        SELECT c.partition_id, c.committed, c.skip, c.redrives, c.failures
                          FROM belfry.cursor c
                         WHERE c.partition_id = p.id AND c.group_id = g.id AND c.ready_at IS NULL AND c.start_at IS NULL OFFSET 0) AS c) AS c
          LEFT JOIN LATERAL (
                SELECT coalesce(p.last_seq - head.seq + 1 - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
                       + coalesce(c.redrives, 0) AS lag,
                       extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at)) AS age
                  FROM (SELECT p.last_seq FROM belfry.partition p
                         WHERE p.id >= c.partition_id AND p.id <= c.partition_id
                         ORDER BY p.id DESC
                         LIMIT 1) AS p
                  LEFT JOIN LATERAL (
                        SELECT m.seq, m.created_at FROM belfry.message m
                         WHERE m.partition_id = c.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                         ORDER BY m.seq
                         LIMIT 1) AS head ON true
                  LEFT JOIN LATERAL (
                        SELECT (SELECT m.created_at FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) AS created_at
                          FROM belfry.redrive r
                         WHERE c.redrives > 0 AND r.partition_id = c.partition_id AND r.group_id = g.id
                         ORDER BY r.seq
                         LIMIT 1) AS put ON true) AS s ON true) AS n
 CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (SELECT d.id FROM belfry.dead_letter d WHERE d.group_id = g.id LIMIT $6::bigint) AS d) AS dead
 ORDER BY g.name
