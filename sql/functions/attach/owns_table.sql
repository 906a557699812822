-- Whose an attachment and its failures are: the owner's of the table, and those of
-- an admin, who is known by the right to change what is noted. What is noted of a
-- table that is gone is an admin's.
CREATE FUNCTION belfry.owns_table(p_target oid, p_role name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.has_table_privilege(p_role, 'belfry.attachment', 'UPDATE')
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = p_target AND pg_catalog.pg_has_role(p_role, c.relowner, 'USAGE'))
$$;
