-- Deletes a tenant that has no partition. If a session is creating a partition of the tenant, the tenant stays; see
-- open_tenants.
CREATE FUNCTION belfry.remove_idle_tenant(p_tenant bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM t.id FROM belfry.tenant t WHERE t.id = p_tenant FOR UPDATE SKIP LOCKED;
    IF FOUND AND NOT EXISTS (SELECT FROM belfry.partition p WHERE p.tenant_id = p_tenant) THEN
        DELETE FROM belfry.tenant t WHERE t.id = p_tenant;
    END IF;
END $$;
