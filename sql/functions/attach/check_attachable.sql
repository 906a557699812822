-- Raises an error if the caller may not attach the table. The error names the missing right.
CREATE FUNCTION belfry.check_attachable(p_target regclass) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    SELECT c.relkind, c.relowner, c.relpersistence, n.oid AS schema_id, n.nspname, pg_get_userbyid(c.relowner) AS owner INTO r
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = p_target;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no table to attach' USING ERRCODE = 'undefined_table',
            HINT = 'Write ''schema.table''. Put a name in double quotes if SQL requires it.';
    ELSIF r.relkind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION '% is not a table, so its changes cannot be seen', p_target USING ERRCODE = 'wrong_object_type',
            HINT = 'Attach the tables that the view or the foreign table reads.';
    ELSIF r.nspname IN ('belfry', 'pg_catalog', 'information_schema') OR r.relpersistence = 't' THEN
        RAISE EXCEPTION '% cannot be attached', p_target USING ERRCODE = 'wrong_object_type',
            HINT = 'Tables of Belfry, system tables and temporary tables cannot be attached.';
    ELSIF EXISTS (
        WITH RECURSIVE k(id) AS (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = p_target
            UNION
            SELECT i.inhrelid FROM pg_inherits i JOIN k ON k.id = i.inhparent
        )
        SELECT 1 FROM k JOIN pg_class c ON c.oid = k.id WHERE c.relkind = 'f')
    THEN
        RAISE EXCEPTION '% has a foreign table as a partition or child: with the triggers, Postgres would refuse statements that reach the foreign table', p_target
            USING ERRCODE = 'wrong_object_type', HINT = 'Attach the other partitions or children, and name them in the statements that change their rows.';
    ELSIF NOT pg_has_role(current_user, r.relowner, 'USAGE')
        OR NOT pg_has_role(current_user, r.relowner, CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'USAGE' END)
    THEN
        RAISE EXCEPTION '% may not attach %: it belongs to %', current_user, p_target, r.owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', r.owner, current_user);
    ELSIF NOT has_schema_privilege(r.relowner, 'belfry', 'USAGE') OR NOT has_any_column_privilege(r.relowner, 'belfry.inbox', 'INSERT') THEN
        RAISE EXCEPTION '%, who owns %, may not write to belfry.inbox', r.owner, p_target USING ERRCODE = 'insufficient_privilege',
            DETAIL = 'The triggers always run with the rights of the table''s owner.',
            HINT = format('GRANT belfry_producer TO %I;', r.owner);
    ELSIF NOT has_schema_privilege(current_user, r.schema_id, 'CREATE') OR NOT has_schema_privilege(r.relowner, r.schema_id, 'CREATE') THEN
        RAISE EXCEPTION 'the functions of the triggers cannot be created in schema %', r.nspname USING ERRCODE = 'insufficient_privilege',
            HINT = format('GRANT CREATE ON SCHEMA %I TO %I;', r.nspname,
                CASE WHEN has_schema_privilege(current_user, r.schema_id, 'CREATE') THEN r.owner ELSE current_user END);
    END IF;
END $$;
