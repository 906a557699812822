-- The trigger on belfry.inbox: notifies the sequencer of new rows, at the commit. Postgres merges equal
-- notifications of a transaction into one.
--
-- Commits that notify run one after another in the whole cluster. So a producer sends no notification
-- while the sequencer is awake, because an awake sequencer reads the inbox without notifications.
--
-- 1. Advisory lock 10 is held exclusively while the sequencer is awake.
-- 2. A producer that sends no notification holds lock 8 (shared) until its transaction ends.
-- 3. The sequencer takes lock 8 exclusively before it sleeps. So it sleeps only after the transactions
--    of such producers have ended. pkg/engine/inbox proves that no row is lost.
--
-- A session with belfry.notify = off sends no notification and takes no lock. The sequencer then moves
-- its rows after another notification, or after dispatch.fallback_interval. PREPARE TRANSACTION needs
-- this setting. A WHEN clause would be planned for every statement, so the function reads the setting.
-- 1111837766 is "BELF" in ASCII.
CREATE FUNCTION belfry.inbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_awake boolean := false;
BEGIN
    -- This check is before the locks: a session with belfry.notify = off takes none.
    IF pg_catalog.lower(pg_catalog.current_setting('belfry.notify', true)) OPERATOR(pg_catalog.=) ANY ('{off,false,no,0}') THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.pg_try_advisory_xact_lock_shared(1111837766, 8) THEN
        -- Lock 8 before lock 10. The same expression releases lock 10, so a cancelled statement cannot
        -- keep it.
        v_awake := CASE WHEN pg_catalog.pg_try_advisory_lock_shared(1111837766, 10)
                        THEN NOT pg_catalog.pg_advisory_unlock_shared(1111837766, 10) ELSE true END;
    END IF;
    IF v_awake THEN
        RETURN NULL;
    END IF;
    -- A full notification queue would fail the transaction.
    IF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.97 THEN
        PERFORM pg_catalog.pg_notify('belfry_inbox', '');
    END IF;
    RETURN NULL;
END $$;
