-- Reports whether the end of a lease of a group gives room: the limits count leases, or the breaker waits for its probe. It is not
-- a function in SQL, because Postgres plans those at each call.
CREATE FUNCTION belfry.counts_leases(p_limits bigint, p_group bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM belfry.group_limit l WHERE l.id = p_limits AND (l.concurrency IS NOT NULL OR l.tenant_concurrency IS NOT NULL))
        OR EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group AND b.probe_lease IS NOT NULL);
END $$;
