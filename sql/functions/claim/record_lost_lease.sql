-- Stores that the lease of the locked cursor at p_place ended without an ack. The first unfinished message of the lease
-- has failed, because only its attempts count. Each redriven message of the lease has failed too, at most
-- 100 of them. For the breaker of a group with limits (p_limits), the lease is one failure.
CREATE FUNCTION belfry.record_lost_lease(p_partition bigint, p_group bigint, p_place tid, p_limits bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_attempts belfry.attempt[];
BEGIN
    SELECT k.committed, k.skip, k.lease_id, k.lease_until, k.lease_end INTO c
      FROM belfry.cursor k
     WHERE k.ctid = p_place;
    SELECT array_agg(ROW(p_partition, h.seq, p_group, 0, belfry.lease_begin(c.lease_id), c.lease_until, 5, c.lease_id,
                         'the lease ended without an ack', NULL, NULL)::belfry.attempt)
      INTO v_attempts
      FROM ((SELECT m.seq FROM belfry.message m
              WHERE c.lease_end >= 0 AND m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= c.lease_end
                AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
              ORDER BY m.seq LIMIT 1)
            UNION ALL
            (SELECT d.seq FROM belfry.redrive d
              WHERE c.lease_end < 0 AND d.partition_id = p_partition AND d.group_id = p_group AND d.lease_id = c.lease_id
              ORDER BY d.seq LIMIT 100)) AS h;
    IF v_attempts IS NOT NULL THEN
        PERFORM belfry.record_attempts(v_attempts);
        IF p_limits IS NOT NULL THEN
            PERFORM belfry.count_outcomes(ARRAY[ROW(p_group, p_limits, p_partition, c.lease_id, c.lease_until, 0, 1, 1, NULL,
                                                    'a lease ended without an ack')::belfry.outcome]);
        END IF;
    END IF;
END $$;
