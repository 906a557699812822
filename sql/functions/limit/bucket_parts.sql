-- Returns the number of parts of a bucket. A tenant has one. A group has at most eight, with a burst of at least
-- 16 tokens each: with fewer tokens a claim would need several parts.
CREATE FUNCTION belfry.bucket_parts(p_tenant bigint, p_burst bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_tenant = 0 THEN greatest(least(p_burst / 16, 8), 1) ELSE 1 END
$$;
