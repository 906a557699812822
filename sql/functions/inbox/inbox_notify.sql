-- The trigger of the inbox had a condition, belfry.notify, which Postgres reads from
-- the catalog and plans anew in every statement: two thirds of what the trigger cost a
-- statement of one row. The function asks now, in an expression that each session plans once.
CREATE FUNCTION belfry.inbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_awake boolean := false;
BEGIN
    -- Before any lock: who says so takes none.
    IF pg_catalog.lower(pg_catalog.current_setting('belfry.notify', true)) OPERATOR(pg_catalog.=) ANY ('{off,false,no,0}') THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.pg_try_advisory_xact_lock_shared(1111837766, 8) THEN
        -- In this order. Whoever gets lock 10 gives it back in the same expression,
        -- so that no cancelled statement keeps it.
        v_awake := CASE WHEN pg_catalog.pg_try_advisory_lock_shared(1111837766, 10)
                        THEN NOT pg_catalog.pg_advisory_unlock_shared(1111837766, 10) ELSE true END;
    END IF;
    IF v_awake THEN
        RETURN NULL;
    END IF;
    -- A notification too much fails the transaction.
    IF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.97 THEN
        PERFORM pg_catalog.pg_notify('belfry_inbox', '');
    END IF;
    RETURN NULL;
END $$;
