-- Lists rights that the roles of producers, consumers and admins lack, at most 20. Each row has the
-- statement that grants the right. Also lists tables whose row security hides all rows. See
-- belfry.role_grants for the functions.
SELECT t.what, t.mend
  FROM (SELECT format('%s may not execute %s', r.rolname, f.oid::regprocedure), format('GRANT EXECUTE ON FUNCTION %s TO %I;', f.oid::regprocedure, r.rolname)
          FROM pg_roles r
         CROSS JOIN pg_proc f
         WHERE r.rolname IN ('belfry_producer', 'belfry_consumer', 'belfry_admin') AND f.pronamespace = to_regnamespace('belfry')
           AND (NOT f.prosecdef OR f.proname = 'await')
           AND f.proname NOT LIKE ALL (ARRAY['change_pause%', 'change_breaker%', 'set_limits', 'unblock_partition'])
           AND NOT has_function_privilege(r.oid, f.oid, 'EXECUTE')
        UNION ALL
        SELECT format('row security hides belfry.%I', c.relname), format('ALTER TABLE belfry.%I DISABLE ROW LEVEL SECURITY;', c.relname)
          FROM pg_class c
         WHERE c.relnamespace = to_regnamespace('belfry') AND c.relrowsecurity
           AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)) AS t (what, mend) -- Belfry itself creates a policy for each table with row security
 ORDER BY t.what
 LIMIT 20
