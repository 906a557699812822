-- Reports whether a role may see the attachment of a table: the owner of the table, a member of the
-- owner, or an admin. An admin is a role that may update belfry.attachment. Only an admin sees the
-- rows of a dropped table.
CREATE FUNCTION belfry.owns_table(p_target oid, p_role name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.has_table_privilege(p_role, 'belfry.attachment', 'UPDATE')
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = p_target AND pg_catalog.pg_has_role(p_role, c.relowner, 'USAGE'))
$$;
