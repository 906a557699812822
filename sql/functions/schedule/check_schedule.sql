-- Raises an error if a schedule cannot have these values. The expression of cron is checked by the
-- server, except for its number of fields.
CREATE FUNCTION belfry.check_schedule(
    p_name text, p_partition text, p_payload json, p_cron text, p_every interval, p_at timestamptz, p_zone text,
    p_starts timestamptz, p_ends timestamptz, p_jitter interval, p_missed text, p_overlap_group text
) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_problem text;
    v_hint text;
    v_known boolean := true;
BEGIN
    BEGIN
        PERFORM now() AT TIME ZONE p_zone;
    EXCEPTION WHEN invalid_parameter_value THEN
        v_known := false;
    END;
    SELECT c.problem, c.hint INTO v_problem, v_hint FROM (VALUES
        (octet_length(coalesce(p_name, '')) NOT BETWEEN 1 AND 200 OR p_name IN ('.', '..'),
            'the name of the schedule is ' || CASE WHEN p_name IN ('.', '..') THEN p_name ELSE coalesce(octet_length(p_name) || ' bytes long', 'NULL') END,
            'A name has 1 to 200 bytes, and is not . or .., because clients remove these from paths.'),
        (p_name ~ '[\u0001-\u001f\u007f]', 'the name of the schedule has a control character', 'Remove it.'),
        (octet_length(p_partition) > 255 OR p_partition IN ('.', '..'), 'the name of the partition is not valid',
            'A name has at most 255 bytes, and is not . or .., because clients remove these from paths.'),
        (p_payload IS NULL, 'the payload is NULL', 'For the JSON value null write ''null''. To make JSON from a row write to_json(row).'),
        (octet_length(p_payload::text) > 65536, 'the payload has ' || octet_length(p_payload::text) || ' bytes',
            'A schedule has a payload of at most 65536 bytes. Store larger values elsewhere and name their place in the payload.'),
        (num_nonnulls(p_cron, p_every, p_at) <> 1, 'a schedule needs exactly one of cron, every and at, and has ' || num_nonnulls(p_cron, p_every, p_at),
            'Give cron => ''0 8 * * 1-5'', every => ''10 minutes'' or at => now() + interval ''1 day''.'),
        (octet_length(p_cron) > 512 OR trim(p_cron) !~ '^(@\S+( \S+)?|\S+(\s+\S+){4,5})$', 'the cron expression ' || quote_literal(left(p_cron, 80)) || ' does not have five or six fields',
            'Write minute, hour, day, month and weekday, such as ''0 8 * * 1-5'', or a name such as @daily. A sixth field before them is the second.'),
        (extract(year FROM p_every) <> 0 OR extract(month FROM p_every) <> 0, 'every is ' || p_every || ', and months have different lengths',
            'Use cron => ''0 0 1 * *'' for the first of each month.'),
        (extract(epoch FROM p_every) NOT BETWEEN 1 AND 366 * 86400 OR extract(epoch FROM p_every) <> floor(extract(epoch FROM p_every)),
            'every is ' || p_every, 'Give whole seconds, from 1 second to 366 days.'),
        (NOT isfinite(p_at) OR NOT isfinite(p_starts) OR NOT isfinite(p_ends), 'at, starts or ends is infinite', 'Give an instant, or leave the argument out.'),
        (p_ends <= p_starts, 'ends is not after starts', 'Give an end after the start.'),
        (p_zone IS NULL OR NOT v_known, 'the time zone ' || quote_nullable(p_zone) || ' is not known', 'Give a name such as ''Europe/Rome''.'),
        (extract(epoch FROM p_jitter) NOT BETWEEN 0 AND 86400, 'the jitter is ' || p_jitter, 'Give a time from 0 to 1 day.'),
        (p_missed IS NULL OR p_missed NOT IN ('skip', 'one', 'all'), 'missed is ' || quote_nullable(p_missed), 'Use ''skip'', ''one'' or ''all''.'),
        (octet_length(p_overlap_group) NOT BETWEEN 1 AND 255, 'the name of overlap_group is ' || octet_length(p_overlap_group) || ' bytes long',
            'Name the consumer group that must have finished the last message.')
    ) AS c(wrong, problem, hint) WHERE c.wrong LIMIT 1;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'belfry.schedule: %', v_problem USING ERRCODE = 'invalid_parameter_value', HINT = v_hint;
    END IF;
END $$;
