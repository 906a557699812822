-- Counts the messages of one partition by state, in one row. done is the seq up to which every group has
-- finished. The cost grows with groups and dead letters, not with messages. The body is one SELECT, so
-- the planner inlines it.
--
-- remaining is the number of messages that a group must still finish. waiting is the number of these
-- messages that no live lease of the log covers. Both include redriven messages. The group with the most
-- remaining messages decides the state of a message. Without a group, every message is pending. A
-- dead-lettered message counts only as dead.
--
-- A cursor does not know every deleted message after it. least() subtracts the deleted messages from
-- waiting, never from the leased messages. Until the cursor has passed the deleted messages, the same
-- number of completed messages may count as waiting.
CREATE FUNCTION belfry.partition_counts(p_partition bigint, p_last_seq bigint, p_trimmed bigint, p_holes bigint)
RETURNS TABLE (total bigint, pending bigint, processing bigint, completed bigint, dead bigint, done bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.total,
           coalesce(c.waiting, s.alive),
           coalesce(c.remaining, s.alive) - coalesce(c.waiting, s.alive),
           s.alive - coalesce(c.remaining, s.alive),
           s.total - s.alive,
           coalesce(c.done, p_trimmed)
      FROM (SELECT d.seqs, p_last_seq - p_trimmed - p_holes AS total,
                   greatest(p_last_seq - p_trimmed - p_holes - coalesce(belfry.skipped_after(d.seqs, p_trimmed), 0), 0) AS alive
              FROM (SELECT range_agg(int8range(l.seq, l.seq + 1)) AS seqs FROM belfry.dead_letter l
                     WHERE l.partition_id = p_partition AND l.seq > p_trimmed
                    OFFSET 0) AS d
            OFFSET 0) AS s
     CROSS JOIN LATERAL (
            SELECT max(least(u.remaining, s.alive)) AS remaining,
                   max(greatest(least(u.waiting, s.alive - u.remaining + u.waiting), 0)) AS waiting,
                   min(u.done) AS done
              FROM (SELECT CASE WHEN k.redriven > 0 THEN least(k.place, (
                                SELECT r.seq - 1 FROM belfry.redrive r
                                 WHERE r.partition_id = p_partition AND r.group_id = k.group_id
                                 ORDER BY r.seq LIMIT 1)) ELSE k.place END AS done,
                           p_last_seq - k.place + k.redriven
                           - CASE WHEN k.nothing_gone THEN 0 ELSE
                             belfry.skipped_after(coalesce(k.skip + s.seqs, k.skip, s.seqs), k.place) END AS remaining,
                           p_last_seq - k.leased + k.redriven
                           - CASE WHEN k.nothing_gone THEN 0 ELSE
                             belfry.skipped_after(coalesce(k.skip + s.seqs, k.skip, s.seqs), k.leased) END AS waiting
                      FROM (SELECT c.group_id, c.skip, coalesce(c.redrives, 0) AS redriven, c.skip IS NULL AND s.seqs IS NULL AS nothing_gone,
                                   greatest(c.committed, p_trimmed) AS place,
                                   greatest(c.committed, p_trimmed,
                                            CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_end END) AS leased
                              FROM belfry.cursor c
                             WHERE c.partition_id = p_partition) AS k
                    OFFSET 0) AS u
            OFFSET 0) AS c
$$;
