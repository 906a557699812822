-- Empties the buckets of a group whose limits change from the row p_was to the row p_is, if the rate is another one. So a change of
-- the rate allows no burst. A group that never took tokens has no bucket, and begins with full buckets. Buckets stay without a rate,
-- so that a later rate finds them. It waits for claims that have locked a bucket.
CREATE FUNCTION belfry.empty_buckets(p_group bigint, p_was belfry.group_limit, p_is belfry.group_limit) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_parts bigint := belfry.bucket_parts(0, p_is.rate_burst);
    v_full interval; -- the time until a part is full
BEGIN
    IF p_is.tenant_rate_messages IS NOT NULL AND (p_was.tenant_rate_messages, p_was.tenant_rate_per, p_was.tenant_rate_burst)
       IS DISTINCT FROM (p_is.tenant_rate_messages, p_is.tenant_rate_per, p_is.tenant_rate_burst)
    THEN
        UPDATE belfry.limit_bucket b
           SET full_at = clock_timestamp() + p_is.tenant_rate_per * (p_is.tenant_rate_burst::float8 / p_is.tenant_rate_messages)
         WHERE b.group_id = p_group AND b.tenant_id <> 0;
    END IF;
    IF p_is.rate_messages IS NULL OR (p_was.rate_messages, p_was.rate_per, p_was.rate_burst)
       IS NOT DISTINCT FROM (p_is.rate_messages, p_is.rate_per, p_is.rate_burst)
       OR NOT EXISTS (SELECT FROM belfry.limit_bucket b WHERE b.group_id = p_group AND b.tenant_id = 0)
    THEN
        RETURN;
    END IF;
    DELETE FROM belfry.limit_bucket b WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part >= v_parts;
    FOR i IN 0 .. v_parts - 1 LOOP
        v_full := p_is.rate_per * ((p_is.rate_burst / v_parts + (i < p_is.rate_burst % v_parts)::integer) * v_parts::float8 / p_is.rate_messages);
        UPDATE belfry.limit_bucket b SET full_at = clock_timestamp() + v_full WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part = i;
        CONTINUE WHEN FOUND;
        PERFORM pg_advisory_xact_lock(belfry.limit_key(2, p_group, 0, i));
        UPDATE belfry.limit_bucket b SET full_at = clock_timestamp() + v_full WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part = i;
        IF NOT FOUND THEN
            INSERT INTO belfry.limit_bucket (group_id, tenant_id, part, full_at) VALUES (p_group, 0, i, clock_timestamp() + v_full);
        END IF;
    END LOOP;
END $$;
