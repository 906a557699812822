-- The digits without backslashes.
CREATE FUNCTION belfry.session_floor(p_setting text, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The floor and until when, in microseconds. Anybody may have written anything.
    v_kept text[] := regexp_match(current_setting(p_setting, true), '^([0-9]{1,16})/([0-9]{1,16})$');
BEGIN
    IF to_timestamp(v_kept[2]::bigint / 1e6) BETWEEN p_now AND p_now + interval '10 seconds' THEN
        RETURN to_timestamp(v_kept[1]::bigint / 1e6);
    END IF;
    RETURN '-infinity';
END $$;
