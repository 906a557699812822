-- The trigger on belfry.schedule: notifies the servers at the commit, so that they learn the next
-- instant. A session with belfry.notify = off notifies nobody: the servers then learn of the change
-- after dispatch.fallback_interval.
CREATE FUNCTION belfry.schedule_notify() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) NOT IN ('off', 'false', 'no', '0')
       AND pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
        PERFORM pg_notify('belfry_schedules', '');
    END IF;
    RETURN NULL;
END $$;
