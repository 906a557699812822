-- Fails with 40001 if the group or its limits have changed since the snapshot of this transaction. Only a REPEATABLE READ or
-- SERIALIZABLE transaction has such a snapshot. The rollback of the subtransaction releases the locks.
CREATE FUNCTION belfry.check_limits(p_group bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM FROM belfry.consumer_group g WHERE g.id = p_group FOR SHARE SKIP LOCKED;
        PERFORM FROM belfry.group_limit l
          WHERE l.id = (SELECT g.limits_id FROM belfry.consumer_group g WHERE g.id = p_group)
            FOR SHARE SKIP LOCKED;
        RAISE EXCEPTION 'the check is done' USING ERRCODE = 'BF012';
    EXCEPTION WHEN SQLSTATE 'BF012' THEN
        NULL;
    END;
END $$;
