-- Reports whether the limits count leases, so that the end of a lease gives room. It is not a function in SQL, because those are
-- planned at each call.
CREATE FUNCTION belfry.counts_leases(p_limits bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM belfry.group_limit l WHERE l.id = p_limits AND (l.concurrency IS NOT NULL OR l.tenant_concurrency IS NOT NULL));
END $$;
