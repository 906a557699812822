-- Reports whether the caller may insert the row with this number into belfry.limit_slot (p_kind 1), belfry.limit_bucket (2),
-- belfry.breaker (3) or belfry.breaker_count (4).
-- It returns false if another transaction inserts the row now, or has inserted it. It never waits: the advisory lock
-- comes before the unique index. With p_wait it waits for a transaction that inserts the row now. If the row exists, and
-- the snapshot of a REPEATABLE READ transaction is older, it fails with 40001.
CREATE FUNCTION belfry.new_limit_row(
    p_kind integer, p_group bigint, p_tenant bigint, p_number bigint, p_wait boolean DEFAULT false
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_key bigint := belfry.limit_key(p_kind, p_group, p_tenant, p_number);
BEGIN
    IF p_wait THEN
        PERFORM pg_advisory_xact_lock(v_key);
    ELSIF NOT pg_try_advisory_xact_lock(v_key) THEN
        RETURN false;
    END IF;
    INSERT INTO belfry.limit_number (group_id, tenant_id, kind, number) VALUES (p_group, p_tenant, p_kind, p_number)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
