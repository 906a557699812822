-- Lists the rights that a server needs and the role of this session does not have. Each row is the part of
-- a GRANT between GRANT and TO. A server only reads schema_migrations, and only SQL functions change the
-- tables of attachments and grants. Functions of triggers and the two functions named below are left
-- out: belfry.role_grants grants them to no role. CREATE is needed only for the migration of an empty schema.
SELECT string_agg(p.privilege, ', ' ORDER BY p.place) || ' ON SCHEMA belfry' AS missing
  FROM (VALUES (1, 'USAGE'), (2, 'CREATE')) AS p (place, privilege)
 WHERE NOT coalesce(has_schema_privilege(to_regnamespace('belfry'), p.privilege), true)
   AND (p.privilege = 'USAGE' OR NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace('belfry')))
HAVING count(*) > 0
 UNION ALL
(SELECT t.privileges || ' ON ' || string_agg('belfry.' || t.relname, ', ' ORDER BY t.relname)
   FROM (SELECT c.relname, string_agg(p.privilege, ', ' ORDER BY p.place) AS privileges
           FROM pg_class c
          CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE')) AS p (place, privilege)
          WHERE c.relnamespace = to_regnamespace('belfry') AND c.relkind IN ('r', 'p')
            AND (p.privilege = 'SELECT' OR c.relname NOT IN ('schema_migrations', 'attachment', 'attachment_failure', 'queue_grant'))
            AND NOT has_table_privilege(c.oid, p.privilege)
          GROUP BY c.relname) AS t
  GROUP BY t.privileges
  ORDER BY t.privileges)
 UNION ALL
SELECT 'EXECUTE ON FUNCTION ' || string_agg(f.oid::regprocedure::text, ', ' ORDER BY f.oid::regprocedure::text)
  FROM pg_proc f
 WHERE f.pronamespace = to_regnamespace('belfry') AND NOT has_function_privilege(f.oid, 'EXECUTE')
   AND f.prorettype <> 'trigger'::regtype AND f.proname NOT IN ('change_pause_in_session', 'change_breaker_in_session')
HAVING count(*) > 0
