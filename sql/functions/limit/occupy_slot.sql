-- Writes a lease into the row p_slot of belfry.limit_slot. Returns false if the row is not free, or if another transaction has
-- locked it. belfry.take_slot has the proof, and calls this function.
--
--   p_place        the row as the caller has read it, NULL: there is none. It has the lease p_old_lease of p_old_partition.
--   p_lease_until  the end of that lease, which is not after the clock of the caller. NULL: the lease is over.
CREATE FUNCTION belfry.occupy_slot(
    p_group bigint, p_tenant bigint, p_slot bigint, p_partition bigint, p_lease uuid,
    p_place tid, p_old_partition bigint, p_old_lease uuid, p_lease_until timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_place IS NULL THEN
        IF NOT belfry.new_limit_row(1, p_group, p_tenant, p_slot) THEN
            RETURN false;
        END IF;
        INSERT INTO belfry.limit_slot (group_id, tenant_id, slot, partition_id, lease_id)
        VALUES (p_group, p_tenant, p_slot, p_partition, p_lease);
        RETURN true;
    END IF;
    -- A row that has changed since the read has another lease, and does not match.
    IF p_lease_until IS NOT NULL THEN
        PERFORM FROM belfry.limit_slot s WHERE s.ctid = p_place AND s.lease_id = p_old_lease FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND OR NOT belfry.lease_is_over(p_old_partition, p_group, p_old_lease) THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE belfry.limit_slot s SET partition_id = p_partition, lease_id = p_lease
     WHERE s.ctid = (SELECT o.ctid FROM belfry.limit_slot o WHERE o.ctid = p_place AND o.lease_id = p_old_lease FOR NO KEY UPDATE SKIP LOCKED);
    RETURN FOUND;
END $$;
