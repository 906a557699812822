-- Keeps the latest 100 failures of each attachment, with as much of a message as
-- an operator reads. It waits for nobody: what another transaction removes, or
-- holds, is left to the next failure.
CREATE FUNCTION belfry.attachment_failure_trim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR n IN REVERSE 2000 .. 1997 LOOP -- where the encoding is SQL_ASCII a letter may be cut
        NEW.message := left(NEW.message, n);
        EXIT WHEN belfry.readable(NEW.message);
    END LOOP;
    DELETE FROM belfry.attachment_failure f
     WHERE f.id IN (
            SELECT h.id FROM belfry.attachment_failure h
             WHERE h.id IN (
                    SELECT o.id FROM belfry.attachment_failure o
                     WHERE o.target = NEW.target AND o.queue = NEW.queue
                     ORDER BY o.failed_at DESC, o.id DESC
                    OFFSET 99)
               FOR UPDATE SKIP LOCKED);
    RETURN NEW;
EXCEPTION WHEN serialization_failure THEN -- removed since the snapshot
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION belfry.attachment_failure_trim() FROM PUBLIC;
