-- Gives a place to each live lease of a group that has just got a concurrency, so that the limit counts them. Their rows are above
-- the limit; see belfry.usable_slots. A claim that began before the change is not counted. It runs in the transaction that sets the limit.
CREATE FUNCTION belfry.register_leases(p_group bigint, p_limit bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_slot bigint := greatest(p_limit, (SELECT max(s.slot) FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = 0));
    k record;
BEGIN
    FOR k IN
        SELECT c.partition_id, c.lease_id
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.lease_id IS NOT NULL AND c.lease_until > clock_timestamp()
           AND NOT EXISTS (SELECT FROM belfry.limit_slot s
                            WHERE s.group_id = p_group AND s.tenant_id = 0 AND s.partition_id = c.partition_id AND s.lease_id = c.lease_id)
         ORDER BY c.partition_id
    LOOP
        v_slot := v_slot + 1;
        IF belfry.new_limit_row(1, p_group, 0, v_slot) THEN
            INSERT INTO belfry.limit_slot (group_id, tenant_id, slot, partition_id, lease_id)
            VALUES (p_group, 0, v_slot, k.partition_id, k.lease_id);
        ELSE
            RAISE EXCEPTION 'place % of group % is taken', v_slot, p_group USING ERRCODE = 'lock_not_available';
        END IF;
    END LOOP;
END $$;
