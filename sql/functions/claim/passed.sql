-- Returns p_committed, or the last of the skipped seqs that directly follow p_committed.
CREATE FUNCTION belfry.passed(p_committed bigint, p_skip int8multirange) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(int8multirange(int8range(p_committed + 1, NULL)) - p_skip) - 1
$$;
