-- Reports whether a lease that has ended by the clock was not extended meanwhile. If another session holds the
-- lock of the cursor, the lease may be live. The rollback of the subtransaction releases the lock.
CREATE FUNCTION belfry.lease_is_over(p_partition bigint, p_group bigint, p_lease uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_over boolean;
BEGIN
    BEGIN
        SELECT c.lease_id IS DISTINCT FROM p_lease OR c.lease_until <= clock_timestamp() INTO v_over
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition AND c.group_id = p_group
           FOR NO KEY UPDATE SKIP LOCKED;
        RAISE EXCEPTION 'the check is done' USING ERRCODE = 'BF012';
    EXCEPTION WHEN SQLSTATE 'BF012' THEN
        RETURN coalesce(v_over, false);
    END;
END $$;
