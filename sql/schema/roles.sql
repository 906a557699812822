-- Three roles without a login. An operator grants them to the roles that log in:
--
--   belfry_producer  Inserts into the inbox, and attaches its own tables.
--   belfry_consumer  Pops and acknowledges through functions, and reads no table.
--   belfry_admin     Has the rights of both, and reads and writes every table, but cannot change
--                    definitions. The server needs these rights if it does not own the schema.
--
-- Roles belong to the whole cluster, so a down migration keeps them. A migration that runs as a role
-- without CREATEROLE creates no roles and continues.
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
                NULL; -- a migration of another database of the cluster has just created the role
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role % was not created: % may not create roles', v_role, current_user
                    USING HINT = 'Everything else works without it. "belfry roles" prints the statements for a role with CREATEROLE.';
                CONTINUE;
        END;
        FOR v_grant IN SELECT g.text FROM belfry.role_grants(v_kind, v_role) AS g(text) LOOP
            EXECUTE v_grant;
        END LOOP;
    END LOOP;
END $$;
