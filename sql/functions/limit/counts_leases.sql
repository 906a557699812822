-- Reports whether the end of a lease of a group gives room: the limits count leases, or the breaker waits for its probe.
CREATE FUNCTION belfry.counts_leases(p_limits bigint, p_group bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT l.concurrency IS NOT NULL OR l.tenant_concurrency IS NOT NULL FROM belfry.group_limit l WHERE l.id = p_limits), false)
        OR EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group AND b.probe_lease IS NOT NULL)
$$;
