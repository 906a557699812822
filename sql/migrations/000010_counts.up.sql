-- What the counts of pkg/stats need. How each number is defined is told in
-- pkg/stats/doc.go.

-- The messages of one partition by state; one row, O(groups + dead letters).
-- done is the seq up to which every group is done. The body is one SELECT, so
-- the planner inlines it.
--
-- Of each cursor: remaining is what its group is still to finish, waiting is
-- what of that no live lease of the log covers; both with what was redriven. A
-- message counts by the group that has got the least far with it; without any
-- group it waits. A dead-lettered message
-- counts as that and nothing else, whatever other groups do with it. The least()
-- keeps the sum right for a group that joined after messages were deleted one by
-- one: it does not know of those holes.
CREATE FUNCTION belfry.partition_counts(p_partition bigint, p_last_seq bigint, p_trimmed bigint, p_holes bigint)
RETURNS TABLE (total bigint, pending bigint, processing bigint, completed bigint, dead bigint, done bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.total,
           least(coalesce(c.waiting, s.alive), s.alive),
           least(coalesce(c.remaining, s.alive), s.alive) - least(coalesce(c.waiting, s.alive), s.alive),
           s.alive - least(coalesce(c.remaining, s.alive), s.alive),
           s.total - s.alive,
           coalesce(c.done, p_trimmed)
      FROM (SELECT d.seqs, p_last_seq - p_trimmed - p_holes AS total,
                   greatest(p_last_seq - p_trimmed - p_holes - cardinality(d.seqs), 0) AS alive
              FROM (SELECT ARRAY (SELECT DISTINCT l.seq FROM belfry.dead_letter l
                                   WHERE l.partition_id = p_partition AND l.seq > p_trimmed) AS seqs
                    OFFSET 0) AS d
            OFFSET 0) AS s
     CROSS JOIN LATERAL (
            SELECT max(p_last_seq - k.place
                       - CASE WHEN k.nothing_gone THEN 0 ELSE
                         (SELECT count(DISTINCT g.seq) FROM unnest(k.skip || s.seqs) AS g(seq) WHERE g.seq > k.place) END + k.redriven) AS remaining,
                   max(p_last_seq - k.leased
                       - CASE WHEN k.nothing_gone THEN 0 ELSE
                         (SELECT count(DISTINCT g.seq) FROM unnest(k.skip || s.seqs) AS g(seq) WHERE g.seq > k.leased) END + k.redriven) AS waiting,
                   min(k.place) AS done
              FROM (SELECT c.skip, coalesce(c.redrives, 0) AS redriven, c.skip IS NULL AND s.seqs = '{}' AS nothing_gone,
                           greatest(c.committed, p_trimmed) AS place,
                           greatest(c.committed, p_trimmed,
                                    CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_end END) AS leased
                      FROM belfry.cursor c
                     WHERE c.partition_id = p_partition) AS k
            OFFSET 0) AS c
$$;
