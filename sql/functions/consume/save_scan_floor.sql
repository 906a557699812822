-- Stores the floor of the next scans in a setting of the session; see load_scan_floor. p_lowest:
-- the lowest ready_at that the scan saw. p_now: the start of the scan. p_took: its duration.
CREATE FUNCTION belfry.save_scan_floor(p_setting text, p_lowest timestamptz, p_now timestamptz, p_took interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_setting IS NOT NULL AND p_took > interval '2 milliseconds' THEN
        PERFORM set_config(p_setting, format('%s/%s',
            floor(extract(epoch FROM least(p_lowest, statement_timestamp() - interval '500 milliseconds')) * 1000000)::bigint,
            floor(extract(epoch FROM p_now + least(20 * p_took, interval '10 seconds')) * 1000000)::bigint), false);
    END IF;
END $$;
