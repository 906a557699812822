-- Returns the number of tokens in the bucket of a group, or of one of its tenants. A part without a row is full.
CREATE FUNCTION belfry.tokens_left(p_group bigint, p_tenant bigint, p_messages bigint, p_per interval, p_burst bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (p_burst - coalesce(sum(least(u.burst, ceil(greatest(extract(epoch FROM b.full_at - statement_timestamp())::float8, 0)
               * p_messages / extract(epoch FROM p_per)::float8 / u.parts - 1e-9)::bigint)), 0))::bigint
      FROM belfry.limit_bucket b
     CROSS JOIN LATERAL (SELECT belfry.bucket_parts(p_tenant, p_burst) AS parts) AS t
     CROSS JOIN LATERAL (SELECT t.parts, p_burst / t.parts + (b.part < p_burst % t.parts)::integer AS burst) AS u
     WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part < t.parts
$$;
