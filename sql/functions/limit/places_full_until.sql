-- Returns NULL if a lease of a group has a free place, and otherwise an instant at which a place is free at the latest. It reads
-- only committed rows and locks nothing. It searches as belfry.take_slot does, so it reads few rows unless nearly all leases are live.
CREATE FUNCTION belfry.places_full_until(p_group bigint, p_tenant bigint, p_limit bigint, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_live bigint;
    v_next timestamptz;
    v_begin bigint := CASE WHEN p_limit > 16 THEN floor(random() * p_limit)::bigint ELSE 0 END;
    k record;
BEGIN
    IF EXISTS (SELECT FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot > p_limit) THEN
        SELECT count(*), min(c.lease_until) INTO v_live, v_next
          FROM belfry.limit_slot s
         CROSS JOIN LATERAL (
                SELECT c.lease_id, c.lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c
         WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND c.lease_id = s.lease_id AND c.lease_until > p_now;
        RETURN CASE WHEN v_live >= p_limit THEN v_next END;
    END IF;
    FOR k IN
        SELECT CASE WHEN c.lease_id = s.lease_id AND c.lease_until > p_now THEN c.lease_until END AS lease_until
          FROM (SELECT generate_series(0, p_limit - 1) AS i) AS i -- makes the numbers one by one, unlike a function in FROM
         CROSS JOIN LATERAL (SELECT (v_begin + i.i) % p_limit + 1 AS slot) AS n
          LEFT JOIN LATERAL (
                SELECT s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= n.slot AND s.slot <= n.slot
                 ORDER BY s.slot DESC LIMIT 1) AS s ON true
          LEFT JOIN LATERAL (
                SELECT c.lease_id, c.lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true
    LOOP
        IF k.lease_until IS NULL THEN
            RETURN NULL;
        END IF;
        v_next := least(v_next, k.lease_until);
    END LOOP;
    RETURN v_next;
END $$;
