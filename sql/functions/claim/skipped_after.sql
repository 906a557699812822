-- Counts the seqs of p_skip that are above p_seq. Returns NULL if p_skip is NULL.
CREATE FUNCTION belfry.skipped_after(p_skip int8multirange, p_seq bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT coalesce(sum(upper(s.part) - lower(s.part)), 0)::bigint
      FROM (SELECT unnest(p_skip * int8multirange(int8range(p_seq + 1, NULL))) AS part) AS s
$$;
