-- Returns the scan floor of this session, or -infinity. A pop from any partition scans only the cursors
-- whose ready_at is at or above the floor. While a transaction keeps an old snapshot, vacuum cannot
-- remove dead index entries, and each scan reads all of them again. The floor skips those entries. The
-- risk: a pop does not find a cursor that becomes ready with a ready_at below the floor. These rules
-- limit the risk:
--
-- 1. Only a scan of more than 2 ms stores a floor. The floor expires after twenty times the
--    duration of that scan, and after at most ten seconds.
-- 2. The floor is not above the lowest ready_at that the scan saw. Cursors that other sessions have
--    locked, and cursors without messages, count too.
-- 3. The floor is at least half a second before the statement. Only a transaction that commits more
--    than half a second after it computed a ready_at can commit a ready_at below the floor.
-- 4. A REPEATABLE READ transaction stores no floor: its snapshot may be older than the statement.
--
-- p_setting names a setting of the session for one group, because a connection pool may pass the session
-- to a client of another group. A rollback of the transaction restores the setting. Any session can
-- write the setting, so the pattern accepts only digits.
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
