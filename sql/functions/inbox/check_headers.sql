-- Returns the headers of a message as they are stored: the names in lower case. An empty object is NULL.
-- Raises an error for headers that a push over HTTP would refuse; see pkg/queue/headers.go.
CREATE FUNCTION belfry.check_headers(headers json) RETURNS json LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_bad text;
    v_stored json;
    v_names bigint;
    v_different bigint;
    v_bytes bigint;
BEGIN
    IF headers IS NULL THEN
        RETURN NULL;
    ELSIF json_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'the headers are of the type %', json_typeof(headers) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give an object of texts, such as ''{"tenant": "acme"}''.';
    END IF;
    SELECT min(h.key) FILTER (WHERE h.key !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]{1,128}$' OR json_typeof(h.value) <> 'string'
                                 OR h.value #>> '{}' ~ '[\u0001-\u001f\u007f]'),
           json_object_agg(lower(h.key COLLATE "C"), h.value ORDER BY lower(h.key COLLATE "C")),
           count(*), count(DISTINCT lower(h.key COLLATE "C")), coalesce(sum(octet_length(h.key) + octet_length(h.value #>> '{}')), 0)
      INTO v_bad, v_stored, v_names, v_different, v_bytes
      FROM json_each(headers) AS h;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'the header % cannot be stored', quote_literal(left(v_bad, 200)) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A name has 1 to 128 letters, digits and characters of !#$%&''*+-.^_`|~. A value is a text without control characters.';
    ELSIF v_names > 32 OR v_bytes > 8192 OR v_different < v_names THEN
        RAISE EXCEPTION 'the message has % headers of % different names, with % bytes', v_names, v_different, v_bytes
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A message has at most 32 headers, with 8192 bytes together. Names with other case are equal.';
    END IF;
    RETURN CASE WHEN v_names > 0 THEN v_stored END;
END $$;
