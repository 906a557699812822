-- Returns the instant from which a pop of this session scans cursors, or -infinity. save_scan_floor
-- stored it in the setting p_setting. Any session can write the setting, so the pattern accepts
-- only digits. The setting rolls back with the transaction. A pool may pass it to another client, so
-- it is per group.
--
-- A held snapshot keeps old index entries, and a scan walks all of them. A SQL session does not hear
-- of cursors that become ready below its floor. So a floor is kept only where scans are slow, and
-- not for long:
--
-- 1. After a scan of more than 2 ms, the next scans start at the floor for twenty times the
--    duration of that scan, and at most ten seconds.
-- 2. The floor is the lowest ready_at that the scan saw. Cursors that other sessions hold and
--    drained cursors count too.
-- 3. The floor is at least half a second before the statement. If a transaction took longer than
--    that to make a cursor due, a pop may find the cursor only when the floor expires.
-- 4. A REPEATABLE READ snapshot may be older than its statement, so it stores no floor.
CREATE FUNCTION belfry.load_scan_floor(p_setting text, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The floor, and the instant at which it expires, in microseconds.
    v_kept text[] := regexp_match(current_setting(p_setting, true), '^([0-9]{1,16})/([0-9]{1,16})$');
BEGIN
    IF to_timestamp(v_kept[2]::bigint / 1e6) BETWEEN p_now AND p_now + interval '10 seconds' THEN
        RETURN to_timestamp(v_kept[1]::bigint / 1e6);
    END IF;
    RETURN '-infinity';
END $$;
