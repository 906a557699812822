-- Returns the part of p_skip that is above p_seq, or NULL if that part is empty.
CREATE FUNCTION belfry.skip_beyond(p_skip int8multirange, p_seq bigint) RETURNS int8multirange LANGUAGE sql IMMUTABLE AS $$
    SELECT nullif(p_skip * int8multirange(int8range(p_seq + 1, NULL)), '{}')
$$;
