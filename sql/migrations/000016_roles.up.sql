-- Three roles without a login, for grants to the roles that people and programs
-- log in with:
--
--   belfry_producer  writes to the inbox, and attaches tables of its own
--   belfry_consumer  pops and acknowledges through functions; reads no table
--   belfry_admin     both, and reads and writes every table, but changes none: what
--                    the service needs where it does not own the schema
--
-- They belong to the whole cluster, so a migration back leaves them. Where the
-- migrating role may not create roles, they are not made; "belfry roles" prints
-- what to run.

-- The statements that give role_name the rights of a producer, a consumer or an
-- admin. They are for any role, also for one that logs in.
CREATE FUNCTION belfry.role_grants(kind text, role_name name) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF kind IS NULL OR kind NOT IN ('producer', 'consumer', 'admin') THEN
        RAISE EXCEPTION 'the kind % is not known', quote_nullable(kind) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''producer'', ''consumer'' or ''admin''.';
    END IF;
    RETURN QUERY SELECT format(s.text, role_name, pg_get_userbyid(o.relowner)) FROM pg_class o, (VALUES
        ('producer consumer admin', 'GRANT USAGE ON SCHEMA belfry TO %I'),
        ('producer admin', 'GRANT INSERT (queue, partition, payload, transaction_id, trace_id, visible_at), SELECT (id) ON belfry.inbox TO %I'),
        ('producer admin', 'GRANT SELECT, INSERT, DELETE ON belfry.attachment, belfry.attachment_failure TO %I'),
        ('producer admin', 'GRANT SELECT ON belfry.attachments TO %I'),
        ('consumer admin', 'GRANT EXECUTE ON FUNCTION belfry.subscribe(text, text, text, timestamptz), '
            'belfry.pop(text, text, integer, text, integer), belfry.ack(uuid, uuid[], text, text), belfry.extend(uuid, bigint) TO %I'),
        ('admin', 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA belfry TO %I'),
        ('admin', 'REVOKE INSERT, UPDATE, DELETE ON belfry.schema_migrations FROM %I'),
        ('admin', 'ALTER DEFAULT PRIVILEGES FOR ROLE %2$I IN SCHEMA belfry GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %1$I')
    ) AS s(kinds, text)
     WHERE o.oid = 'belfry.queue'::regclass AND kind = ANY (string_to_array(s.kinds, ' '))
       -- Other tools keep their record elsewhere.
       AND (s.text NOT LIKE '%schema_migrations%' OR to_regclass('belfry.schema_migrations') IS NOT NULL);
END $$;

-- Everything a role that may create roles runs to have the three.
CREATE FUNCTION belfry.role_sql() RETURNS SETOF text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_kind text;
BEGIN
    FOREACH v_kind IN ARRAY ARRAY['producer', 'consumer', 'admin'] LOOP
        IF to_regrole('belfry_' || v_kind) IS NULL THEN
            RETURN NEXT format('CREATE ROLE %I NOLOGIN', 'belfry_' || v_kind);
        END IF;
        RETURN QUERY SELECT g.text FROM belfry.role_grants(v_kind, ('belfry_' || v_kind)::name) AS g(text);
    END LOOP;
END $$;

-- What runs with the rights of the schema's owner is not for everybody.
REVOKE ALL ON FUNCTION belfry.subscribe(text, text, text, timestamptz), belfry.pop(text, text, integer, text, integer),
    belfry.ack(uuid, uuid[], text, text), belfry.extend(uuid, bigint) FROM PUBLIC;

DO $$
DECLARE
    v_kind text;
    v_role name;
    v_grant text;
BEGIN
    FOREACH v_kind IN ARRAY ARRAY['producer', 'consumer', 'admin'] LOOP
        v_role := 'belfry_' || v_kind;
        BEGIN
            IF to_regrole(quote_ident(v_role)) IS NULL THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of the cluster made it at this moment
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role % was not made: % may not create roles', v_role, current_user
                    USING HINT = 'Everything else works without it. "belfry roles" prints what a role with CREATEROLE runs.';
                CONTINUE;
        END;
        FOR v_grant IN SELECT g.text FROM belfry.role_grants(v_kind, v_role) AS g(text) LOOP
            EXECUTE v_grant;
        END LOOP;
    END LOOP;
END $$;
