-- Returns the seq just before the first stored message of a partition that is newer than p_instant, or
-- last_seq if none is newer. A group that starts at or seeks p_instant puts its cursor at this seq.
-- created_at never decreases within a partition, so a binary search finds the seq, even if messages were
-- deleted.
CREATE FUNCTION belfry.seq_at(p_partition bigint, p_instant timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    lo bigint;
    hi bigint;
    mid bigint;
    found_seq bigint;
    found_at timestamptz;
BEGIN
    SELECT trimmed, last_seq INTO lo, hi FROM belfry.partition WHERE id = p_partition;
    WHILE lo < hi LOOP
        mid := (lo + hi + 1) / 2;
        SELECT m.seq, m.created_at INTO found_seq, found_at
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > lo AND m.seq <= mid
         ORDER BY m.seq DESC LIMIT 1;
        IF found_seq IS NULL OR found_at <= p_instant THEN
            lo := mid;
        ELSE
            hi := found_seq - 1;
        END IF;
    END LOOP;
    RETURN lo;
END $$;
