-- Returns the last seq of a partition that was stored at or before p_instant, or the seq before the
-- first stored message. A group starts or seeks there. created_at never decreases within a
-- partition, so this is a binary search. Deleted messages do not disturb it.
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
         ORDER BY m.seq DESC
         LIMIT 1;
        IF found_seq IS NULL OR found_at <= p_instant THEN
            lo := mid;
        ELSE
            hi := found_seq - 1;
        END IF;
    END LOOP;
    RETURN lo;
END $$;
