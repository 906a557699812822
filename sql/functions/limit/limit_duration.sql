-- Returns a duration of the JSON of limits, or NULL if the member is absent. Raises an error unless it is from p_least to 24 hours.
CREATE FUNCTION belfry.limit_duration(p_from jsonb, p_path text[], p_least interval) RETURNS interval LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v jsonb := nullif(p_from #> p_path, 'null');
    v_text text := v #>> '{}';
    v_value interval;
BEGIN
    IF v IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(v) = 'string' AND v_text ~ '^([0-9]{1,8}(\.[0-9]{1,9})?(ms|h|m|s))+$' THEN
        SELECT make_interval(secs => sum(m[1]::float8 * CASE m[3] WHEN 'h' THEN 3600 WHEN 'm' THEN 60 WHEN 's' THEN 1 ELSE 0.001 END))
          INTO v_value
          FROM regexp_matches(v_text, '([0-9]+(\.[0-9]+)?)(ms|h|m|s)', 'g') AS m;
    END IF;
    IF v_value IS NULL OR v_value < p_least OR v_value > interval '24 hours' THEN
        RAISE EXCEPTION '% is %', array_to_string(p_path, '.'), left(v::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = format('Give a duration from %s to 24h, such as "500ms", "10s" or "1m30s".', belfry.duration_text(p_least));
    END IF;
    RETURN v_value;
END $$;
