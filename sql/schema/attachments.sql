-- The attached tables as an operator sees them. belfry.owns_table decides which tables a role sees.
--
-- triggers counts the enabled triggers; a complete attachment has one for each event. For a partitioned
-- table the count is one lower if the row trigger is missing, or if an owner of a partitioned table in
-- its tree may not execute the trigger function. A name that is not valid UTF-8 is shown by its oid.
CREATE VIEW belfry.attachments WITH (security_barrier) AS
SELECT CASE WHEN r.oid IS NULL THEN 'gone (' || a.target::oid || ')'
            WHEN NOT belfry.is_utf8(n.nspname || '.' || r.relname) THEN 'unreadable (' || a.target::oid || ')' ELSE format('%I.%I', n.nspname, r.relname) END AS "table",
       a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.headers, a.strict, a.attached_by, a.attached_at,
       (SELECT greatest(count(*) FILTER (WHERE t.tgtype & 1 = 0) - CASE WHEN r.relkind = 'p' AND a.events <> '{delete}'
                     AND (count(*) FILTER (WHERE t.tgtype & 1 = 1) = 0 OR EXISTS (
                            SELECT 1 FROM pg_catalog.pg_partition_tree(a.target) AS m
                              JOIN pg_catalog.pg_class k ON k.oid = m.relid AND k.relkind = 'p'
                              JOIN pg_catalog.pg_trigger w ON w.tgrelid = k.oid AND w.tgtype & 1 = 1
                               AND w.tgname LIKE 'belfry\_' || left(md5(a.queue), 12) || '\_rows\_%'
                             WHERE NOT has_function_privilege(k.relowner, w.tgfoid, 'EXECUTE'))) THEN 1 ELSE 0 END, 0)
          FROM pg_catalog.pg_trigger t
         WHERE t.tgrelid = a.target AND t.tgenabled <> 'D' AND t.tgname LIKE 'belfry\_' || left(md5(a.queue), 12) || '\_%') AS triggers,
       (SELECT count(*) FROM belfry.attachment_failure f WHERE f.target = a.target AND f.queue = a.queue) AS failures,
       l.failed_at AS last_failed_at, l.message AS last_failure, a.id
  FROM belfry.attachment a
  LEFT JOIN pg_catalog.pg_class r ON r.oid = a.target
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
  LEFT JOIN LATERAL (
        SELECT f.failed_at, f.message FROM belfry.attachment_failure f
         WHERE f.target = a.target AND f.queue = a.queue
         ORDER BY f.failed_at DESC
         LIMIT 1) AS l ON true
 WHERE belfry.owns_table(a.target, current_user);
