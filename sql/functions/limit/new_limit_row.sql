-- Reports whether the caller may insert the row with this number into belfry.limit_slot (p_kind 1) or belfry.limit_bucket (p_kind 2).
-- It returns false if another transaction inserts the row now, or has inserted it. It never waits: the advisory lock
-- comes before the unique index. If the row exists, and the snapshot of a REPEATABLE READ transaction is older, it fails
-- with 40001.
CREATE FUNCTION belfry.new_limit_row(p_kind integer, p_group bigint, p_tenant bigint, p_number bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(belfry.limit_key(p_kind, p_group, p_tenant, p_number)) THEN
        RETURN false;
    END IF;
    INSERT INTO belfry.limit_number (group_id, tenant_id, kind, number) VALUES (p_group, p_tenant, p_kind, p_number)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
