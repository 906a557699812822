-- A trigger function calls it if the messages of a statement could not be written. Raises a
-- warning, and stores a row for the operator, at most one a second for each attachment. It raises no
-- error, and waits at most 100 ms for a session that locks the table.
CREATE FUNCTION belfry.attachment_failed(p_target regclass, p_queue text, p_event text, p_code text, p_message text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    IF NOT belfry.is_utf8(p_message) THEN
        p_message := 'an error whose text is not valid UTF-8';
    END IF;
    RAISE WARNING 'the messages of an % of % for queue "%" were not written: %', p_event,
        CASE WHEN belfry.is_utf8(p_target::text) THEN p_target::text ELSE p_target::oid::text END, p_queue, p_message
        USING HINT = 'The statement itself continues. See belfry.attachments.';
    INSERT INTO belfry.attachment_failure (target, queue, event, code, message)
    SELECT p_target, p_queue, p_event, p_code, p_message
     WHERE NOT EXISTS (
            SELECT 1 FROM belfry.attachment_failure f
             WHERE f.target = p_target AND f.queue = p_queue AND f.failed_at > clock_timestamp() - interval '1 second');
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'this failure could not be stored in belfry.attachment_failure: %', SQLERRM;
END $$;
