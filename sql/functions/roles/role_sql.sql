-- Returns the statements that create the three roles and grant their rights. A role with CREATEROLE can
-- run the statements.
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
