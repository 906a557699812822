CREATE OR REPLACE TRIGGER inbox_notify AFTER INSERT ON belfry.inbox
    FOR EACH STATEMENT
    WHEN (lower(coalesce(current_setting('belfry.notify', true), '')) NOT IN ('off', 'false', 'no', '0'))
    EXECUTE FUNCTION belfry.inbox_notify();

CREATE OR REPLACE FUNCTION belfry.inbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_awake boolean := false;
BEGIN
    IF pg_catalog.pg_try_advisory_xact_lock_shared(1111837766, 8) THEN
        -- In this order. Whoever gets lock 10 gives it back in the same expression,
        -- so that no cancelled statement keeps it.
        v_awake := CASE WHEN pg_catalog.pg_try_advisory_lock_shared(1111837766, 10)
                        THEN NOT pg_catalog.pg_advisory_unlock_shared(1111837766, 10) ELSE true END;
    END IF;
    IF v_awake THEN
        RETURN NULL;
    END IF;
    PERFORM pg_catalog.pg_notify('belfry_inbox', '');
    RETURN NULL;
END $$;
