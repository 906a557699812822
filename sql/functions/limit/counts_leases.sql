-- Reports whether the limits count leases, so that the end of a lease gives room.
CREATE FUNCTION belfry.counts_leases(p_limits bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT l.concurrency IS NOT NULL OR l.tenant_concurrency IS NOT NULL FROM belfry.group_limit l WHERE l.id = p_limits), false)
$$;
