-- Lists the newest messages of partitions up to a seq or an instant, without payloads. By array: $1
-- partition ids, $2 the highest seq (NULL: unknown), $3 the latest instant, used if $2 is NULL. $4:
-- messages of each partition at most. $5: a status (empty: any). The status only narrows the search, so
-- the rows may have other statuses too.
--
-- The columns from dead to done_by decide the status. dead: the message is dead-lettered. queue_mode: a
-- reader without a group exists. queue_done: that reader has finished the message. leased_until: the end
-- of a lease of that reader on the message. groups counts the named groups, and done_by the named groups
-- that have finished the message. A redriven message is unfinished until it is settled. The cost of a
-- message grows with the number of groups. The newest message of each partition is first. visible_at:
-- no pop returns the message before it (NULL: no delay).
SELECT k.ord, m.seq, m.created_at, m.id, m.transaction_id, m.trace_id, m.producer_sub, m.headers, p.uid AS partition_uid,
       p.name AS partition_name, p.queue_id,
       coalesce((SELECT true
                   FROM belfry.consumer_group g
                  CROSS JOIN LATERAL (
                         SELECT 1 FROM belfry.dead_letter l
                          WHERE l.partition_id = p.id AND l.group_id = g.id AND l.seq = m.seq OFFSET 0) AS l
                  WHERE g.queue_id = p.queue_id
                  LIMIT 1), false) AS dead,
       s.queue_mode, s.queue_done, s.leased_until, s.groups, s.done_by, m.visible_at
  FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) WITH ORDINALITY AS k(partition_id, upto, instant, ord)
 CROSS JOIN LATERAL (
        SELECT p.id, p.uid, p.name, p.queue_id, p.last_seq, p.trimmed,
               CASE WHEN k.upto IS NOT NULL THEN k.upto
                    WHEN k.instant >= p.last_push_at THEN p.last_seq
                    ELSE belfry.seq_at(p.id, k.instant) END AS upto,
               (SELECT g.id FROM belfry.consumer_group g
                 WHERE g.queue_id = p.queue_id AND g.name = '__QUEUE_MODE__') AS queue_group
          FROM belfry.partition p
         WHERE p.id = k.partition_id OFFSET 0) AS p
 CROSS JOIN LATERAL (
        -- The reader without a group decides the status. Without this reader, the slowest group decides.
        SELECT coalesce(min(c.done) FILTER (WHERE c.group_id = p.queue_group), min(c.done), 0) AS done,
               max(c.lease_end) FILTER (WHERE c.group_id = p.queue_group AND c.lease_until > statement_timestamp()) AS leased,
               coalesce(bool_or(c.skip IS NOT NULL), false) AS skips,
               coalesce(bool_or(c.redrives > 0), false) AS redriven
          FROM (SELECT c.group_id, c.skip, c.redrives, c.lease_until, c.lease_end,
                       CASE WHEN c.redrives > 0 THEN least(c.committed, (
                            SELECT r.seq - 1 FROM belfry.redrive r
                             WHERE r.partition_id = p.id AND r.group_id = c.group_id
                             ORDER BY r.seq
                             LIMIT 1)) ELSE c.committed END AS done
                  FROM belfry.cursor c
                 WHERE c.partition_id = p.id OFFSET 0) AS c) AS r
 CROSS JOIN LATERAL (
        SELECT b.seq, b.created_at, b.id, b.transaction_id, b.trace_id, b.producer_sub, b.headers, b.visible_at
          FROM (SELECT m.seq, m.created_at, m.id, m.transaction_id, m.trace_id, m.producer_sub, m.headers, m.visible_at
                  FROM belfry.message m
                 WHERE $5::text <> 'dead_letter' AND m.partition_id = p.id
                   AND m.seq > CASE $5::text WHEN 'pending' THEN greatest(r.done, CASE WHEN NOT r.redriven THEN r.leased END, p.trimmed)
                                             WHEN 'processing' THEN greatest(r.done, p.trimmed)
                                             ELSE p.trimmed END
                   AND m.seq <= CASE WHEN $5::text = 'processing' AND NOT r.redriven THEN least(p.upto, coalesce(r.leased, 0))
                                     WHEN $5::text = 'completed' AND NOT r.skips AND NOT r.redriven THEN least(p.upto, r.done)
                                     ELSE p.upto END
                 ORDER BY m.seq DESC
                 LIMIT $4::bigint) AS b
        UNION ALL
        SELECT d.seq, d.created_at, d.id, d.transaction_id, d.trace_id, d.producer_sub, d.headers, d.visible_at
          FROM (SELECT DISTINCT ON (l.seq) m.seq, m.created_at, m.id, m.transaction_id, m.trace_id, m.producer_sub, m.headers, m.visible_at
                  FROM belfry.dead_letter l
                 CROSS JOIN LATERAL (
                        SELECT m.seq, m.created_at, m.id, m.transaction_id, m.trace_id, m.producer_sub, m.headers, m.visible_at
                          FROM belfry.message m
                         WHERE m.partition_id = l.partition_id AND m.seq = l.seq OFFSET 0) AS m
                 WHERE $5::text = 'dead_letter' AND l.partition_id = p.id AND l.seq <= p.upto AND l.seq > p.trimmed
                 ORDER BY l.seq DESC
                 LIMIT $4::bigint) AS d) AS m
 CROSS JOIN LATERAL (
        SELECT coalesce(bool_or(c.group_id = p.queue_group), false) AS queue_mode,
               coalesce(bool_or(c.group_id = p.queue_group AND c.done), false) AS queue_done,
               max(c.lease_until) FILTER (WHERE c.group_id = p.queue_group AND c.leased
                                            AND c.lease_until > statement_timestamp()) AS leased_until,
               count(*) FILTER (WHERE c.group_id IS DISTINCT FROM p.queue_group) AS groups,
               count(*) FILTER (WHERE c.group_id IS DISTINCT FROM p.queue_group AND c.done) AS done_by
          FROM (SELECT c.group_id, c.lease_until,
                       put.seq IS NULL AND (m.seq <= c.committed OR coalesce(m.seq <@ c.skip, false)) AS done,
                       CASE WHEN c.lease_end < 0 THEN put.lease_id = c.lease_id
                            ELSE c.committed < m.seq AND m.seq <= c.lease_end AND NOT coalesce(m.seq <@ c.skip, false)
                            END AS leased
                  FROM belfry.cursor c
                  LEFT JOIN LATERAL (
                        SELECT r.seq, r.lease_id FROM belfry.redrive r
                         WHERE c.redrives > 0 AND r.partition_id = p.id AND r.group_id = c.group_id AND r.seq = m.seq) AS put ON true
                 WHERE c.partition_id = p.id OFFSET 0) AS c) AS s
 ORDER BY k.ord, m.seq DESC
