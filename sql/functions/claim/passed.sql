-- Returns the last seq that a cursor at p_committed has finished, with the skipped messages that follow it.
CREATE FUNCTION belfry.passed(p_committed bigint, p_skip int8multirange) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(int8multirange(int8range(p_committed + 1, NULL)) - p_skip) - 1
$$;
