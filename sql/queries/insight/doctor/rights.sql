-- Lists what the role of this session may not do with the schema, up to 20 rows. schema_migrations is
-- only read, and SQL functions alone change the tables of attachments and grants.
SELECT m.missing
  FROM (SELECT 'USAGE ON SCHEMA belfry' AS missing WHERE NOT coalesce(has_schema_privilege(to_regnamespace('belfry'), 'USAGE'), true)
        UNION ALL
        SELECT p.privilege || ' ON belfry.' || c.relname
          FROM pg_class c
         CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS p (privilege)
         WHERE c.relnamespace = to_regnamespace('belfry') AND c.relkind IN ('r', 'p')
           AND (p.privilege = 'SELECT' OR c.relname NOT IN ('schema_migrations', 'attachment', 'attachment_failure', 'queue_grant'))
           AND NOT has_table_privilege(c.oid, p.privilege)
        UNION ALL
        SELECT 'EXECUTE ON FUNCTION ' || f.oid::regprocedure::text
          FROM pg_proc f
         WHERE f.pronamespace = to_regnamespace('belfry') AND NOT has_function_privilege(f.oid, 'EXECUTE')) AS m
 ORDER BY m.missing
 LIMIT 20
