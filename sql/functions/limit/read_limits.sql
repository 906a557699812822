-- Reads the JSON of limits, and raises an error that says what to change. The columns that are no limits are NULL. docs/flow.md
-- describes the members and their defaults.
CREATE FUNCTION belfry.read_limits(p_limits json) RETURNS belfry.group_limit LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    f jsonb := p_limits;
    l belfry.group_limit;
BEGIN
    PERFORM belfry.limit_members(f, '{}', '{concurrency,rateLimit,breaker,onExhausted}');
    l.concurrency := belfry.limit_number(f, '{concurrency}', 1, 10000);
    SELECT r.* INTO l.rate_messages, l.rate_per, l.rate_burst FROM belfry.read_rate(f, 'rateLimit') AS r;
    l.fair := false;
    IF f ->> 'onExhausted' NOT IN ('deadLetter', 'block', 'skip') THEN
        RAISE EXCEPTION 'onExhausted is %', left((f -> 'onExhausted')::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use "deadLetter", "block" or "skip".';
    END IF;
    l.on_exhausted := coalesce(f ->> 'onExhausted', 'deadLetter');
    IF nullif(f -> 'breaker', 'null') IS NULL THEN
        RETURN l;
    END IF;
    PERFORM belfry.limit_members(f, '{breaker}', '{failures,share,window,minimum,pause,pauseMax}');
    l.breaker_failures := belfry.limit_number(f, '{breaker,failures}', 1, 1000000);
    IF nullif(f #> '{breaker,share}', 'null') IS NOT NULL THEN
        IF jsonb_typeof(f #> '{breaker,share}') = 'number' THEN
            l.breaker_share := CASE WHEN (f #> '{breaker,share}')::numeric BETWEEN 0.000001 AND 1 THEN (f #> '{breaker,share}')::float8 END;
        END IF;
        IF l.breaker_share IS NULL THEN
            RAISE EXCEPTION 'breaker.share is %', left((f #> '{breaker,share}')::text, 80) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give a number from 0.000001 to 1.';
        END IF;
    END IF;
    IF l.breaker_failures IS NULL AND l.breaker_share IS NULL THEN
        RAISE EXCEPTION 'breaker has neither failures nor share' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give failures, the failures in a row, or share, the part of failures in the window.';
    END IF;
    l.breaker_window := coalesce(belfry.limit_duration(f, '{breaker,window}', '1 second'), '1 minute');
    l.breaker_minimum := coalesce(belfry.limit_number(f, '{breaker,minimum}', 1, 1000000), 10);
    l.breaker_pause := coalesce(belfry.limit_duration(f, '{breaker,pause}', '1 second'), '10 seconds');
    l.breaker_pause_max := coalesce(belfry.limit_duration(f, '{breaker,pauseMax}', '1 second'), greatest('10 minutes', l.breaker_pause));
    IF l.breaker_pause_max < l.breaker_pause THEN
        RAISE EXCEPTION 'breaker.pauseMax is %, and breaker.pause is %', belfry.duration_text(l.breaker_pause_max), belfry.duration_text(l.breaker_pause)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a pauseMax that is not less than pause.';
    END IF;
    RETURN l;
END $$;
