-- Deletes a schedule when the calling transaction commits. Its stored messages stay. Returns false if
-- there is no schedule of this name. The role needs the right to push to the queue of the schedule.
CREATE FUNCTION belfry.unschedule(name text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_queue text;
BEGIN
    DELETE FROM belfry.schedule s WHERE s.name = $1 RETURNING s.queue INTO v_queue;
    IF v_queue IS NULL THEN
        RETURN false;
    END IF;
    PERFORM belfry.check_scheduler(ARRAY[v_queue]);
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION belfry.unschedule(text) FROM PUBLIC;
