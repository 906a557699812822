-- Raises an error unless a value of the JSON of limits is an object with members of p_known, or is absent. p_path is the path of
-- the object, or {} for the whole JSON.
CREATE FUNCTION belfry.limit_members(p_from jsonb, p_path text[], p_known text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v jsonb := CASE WHEN p_path = '{}' THEN p_from ELSE nullif(p_from #> p_path, 'null') END;
    v_of text := nullif(array_to_string(p_path, '.'), '');
    v_unknown text;
BEGIN
    IF jsonb_typeof(v) <> 'object' THEN
        RAISE EXCEPTION '% is %', coalesce(v_of, 'the JSON of the limits'), left(v::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give an object with the members ' || array_to_string(p_known, ', ') || '.';
    END IF;
    SELECT string_agg(quote_ident(left(k, 80)), ', ' ORDER BY k) INTO v_unknown
      FROM jsonb_object_keys(v) AS k WHERE jsonb_typeof(v) = 'object' AND k <> ALL (p_known);
    IF v_unknown IS NOT NULL THEN
        RAISE EXCEPTION 'unknown members%: %', coalesce(' of ' || v_of, ''), v_unknown USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ' || array_to_string(p_known, ', ') || '.';
    END IF;
END $$;
