-- The trigger on belfry.attachment_failure: keeps the newest 100 failures of each attachment, and
-- shortens long texts. It does not wait for locks. The next failure deletes the rows that another
-- transaction has locked now.
CREATE FUNCTION belfry.trim_attachment_failures() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR n IN REVERSE 2000 .. 1997 LOOP -- with encoding SQL_ASCII the cut may be inside a character
        NEW.message := left(NEW.message, n);
        EXIT WHEN belfry.is_utf8(NEW.message);
    END LOOP;
    DELETE FROM belfry.attachment_failure f WHERE f.id IN (
        SELECT h.id FROM belfry.attachment_failure h
         WHERE h.id IN (
                SELECT o.id FROM belfry.attachment_failure o
                 WHERE o.target = NEW.target AND o.queue = NEW.queue ORDER BY o.failed_at DESC, o.id DESC OFFSET 99)
           FOR UPDATE SKIP LOCKED);
    RETURN NEW;
EXCEPTION WHEN serialization_failure THEN -- another transaction deleted the row after the snapshot
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION belfry.trim_attachment_failures() FROM PUBLIC;
