-- Returns the number of live leases that count for the concurrency of a group, or of one of its tenants.
CREATE FUNCTION belfry.live_leases(p_group bigint, p_tenant bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*)
      FROM belfry.limit_slot s
     CROSS JOIN LATERAL (
            SELECT c.lease_id, c.lease_until FROM belfry.cursor c
             WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1) AS c
     WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND c.lease_id = s.lease_id AND c.lease_until > statement_timestamp()
$$;
