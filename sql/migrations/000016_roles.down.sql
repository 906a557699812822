-- The roles stay: they belong to the cluster, and other databases may use them.
DO $$
DECLARE
    v_role name;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['belfry_producer', 'belfry_consumer', 'belfry_admin']::name[] LOOP
        CONTINUE WHEN to_regrole(v_role::text) IS NULL;
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA belfry REVOKE ALL ON TABLES FROM %I',
            (SELECT pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c WHERE c.oid = 'belfry.queue'::regclass), v_role);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA belfry FROM %I', v_role);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA belfry FROM %I', v_role);
        EXECUTE format('REVOKE ALL ON SCHEMA belfry FROM %I', v_role);
    END LOOP;
END $$;
GRANT EXECUTE ON FUNCTION belfry.subscribe(text, text, text, timestamptz), belfry.pop(text, text, integer, text, integer),
    belfry.ack(uuid, uuid[], text, text), belfry.extend(uuid, bigint) TO PUBLIC;
DROP FUNCTION belfry.role_sql();
DROP FUNCTION belfry.role_grants(text, name);
