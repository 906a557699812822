-- Returns a whole number of the JSON of limits, or NULL if the member is absent. Raises an error unless it is from p_least to p_most.
CREATE FUNCTION belfry.limit_number(p_from jsonb, p_path text[], p_least bigint, p_most bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v jsonb := nullif(p_from #> p_path, 'null');
    v_number numeric;
BEGIN
    IF jsonb_typeof(v) = 'number' THEN
        v_number := v;
    END IF;
    IF v IS NOT NULL AND coalesce(v_number NOT BETWEEN p_least AND p_most OR v_number % 1 <> 0, true) THEN
        RAISE EXCEPTION '% is %', array_to_string(p_path, '.'), left(v::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = format('Give a whole number from %s to %s.', p_least, p_most);
    END IF;
    RETURN v_number;
END $$;
