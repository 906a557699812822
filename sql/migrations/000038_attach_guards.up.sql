-- What a queue's name, a condition or somebody else could do to who attaches a table.
--
-- The name of a queue with $belfry$ in it ended the body of the function that each
-- partition's trigger has, and what followed was run by whoever attached the table. Functions in a
-- condition that are declared IMMUTABLE were run with his rights, since the condition was
-- planned. Whoever made a trigger of their own with the function for partitions, which
-- everybody may run, kept the table from being detached.
--
-- Nothing is to be attached anew for this.
CREATE OR REPLACE FUNCTION pg_temp.rewrite(p_function regprocedure, VARIADIC p_pairs text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_text text := pg_get_functiondef(p_function);
BEGIN
    FOR i IN 1 .. cardinality(p_pairs) BY 2 LOOP
        IF strpos(v_text, p_pairs[i]) = 0 THEN
            RAISE EXCEPTION '% is not the function it was: it has no %', p_function, p_pairs[i];
        END IF;
        v_text := replace(v_text, p_pairs[i], p_pairs[i + 1]);
    END LOOP;
    EXECUTE v_text;
END $$;

SELECT pg_temp.rewrite('belfry.attach_sql(regclass, text, text[], text[], text, text, text[], boolean)',
    $r$                FETCH v_plan INTO v_event;
$r$,
    $r$$r$,
    $r$            -- something else, cannot. A cursor refuses several statements before it runs one.
$r$,
    $r$            -- something else, cannot. A cursor refuses several statements before it runs one. Nothing
            -- is fetched from it: whoever plans runs functions that are the same each time.
$r$,
    $r$    FOR old IN SELECT DISTINCT f.id FROM unnest(v_gone) AS f(id) WHERE f.id IS NOT NULL LOOP
$r$,
    $r$    -- The one for rows may have been taken for a trigger by anybody.
    FOR old IN
        SELECT DISTINCT f.id FROM unnest(v_gone) AS f(id)
         WHERE f.id IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM pg_trigger t WHERE t.tgfoid = f.id AND t.tgparentid = 0 AND t.tgrelid <> target)
    LOOP
$r$,
    $r$            AND array_position(v_gone, to_regprocedure(v_function || '()')) IS NULL
        THEN$r$,
    $r$            AND array_position(v_gone, to_regprocedure(v_function || '()')) IS NULL AND v_event <> 'rows'
        THEN$r$,
    $r$            v_sql := v_sql || format(E'CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $belfry$\nBEGIN\n    RETURN NEW;\n'
                    '    INSERT INTO belfry.inbox (queue, partition, payload)\n    SELECT %L, NULL, NULL;\nEND $belfry$;\n'
                    'GRANT EXECUTE ON FUNCTION %1$s() TO PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %3$I;\n', v_function, queue, v_owner);
$r$,
    $r$            v_sql := v_sql || format(E'CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS %L;\n'
                    'GRANT EXECUTE ON FUNCTION %1$s() TO PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %3$I;\n', v_function,
                    format(E'\nBEGIN\n    RETURN NEW;\n    INSERT INTO belfry.inbox (queue, partition, payload)\n    SELECT %L, NULL, NULL;\nEND ', queue),
                    v_owner);
$r$);
SELECT pg_temp.rewrite('belfry.detach(regclass, text)',
    $r$    FOR t IN SELECT DISTINCT f.id FROM unnest(v_functions) AS f(id) WHERE f.id IS NOT NULL LOOP
$r$,
    $r$    FOR t IN
        SELECT DISTINCT f.id FROM unnest(v_functions) AS f(id)
         WHERE f.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_trigger g WHERE g.tgfoid = f.id) -- somebody else's
    LOOP
$r$);
SELECT pg_temp.rewrite('belfry.attachment_failed(regclass, text, text, text, text)',
    $r$p_event, p_target, p_queue, p_message
        USING HINT$r$,
    $r$p_event,
        CASE WHEN belfry.readable(p_target::text) THEN p_target::text ELSE p_target::oid::text END, p_queue, p_message
        USING HINT$r$);
SELECT pg_temp.rewrite('belfry.check_attachable(regclass)',
    $r$    ELSIF NOT pg_has_role(current_user, r.relowner, 'USAGE') THEN
$r$,
    $r$    ELSIF NOT pg_has_role(current_user, r.relowner, 'USAGE')
        OR NOT pg_has_role(current_user, r.relowner, CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'USAGE' END)
    THEN
$r$);

-- triggers counts one less where the owner of the table, or of one between it and its
-- partitions, may not make partitions. What cannot be read as UTF-8 is not shown.
CREATE OR REPLACE VIEW belfry.attachments WITH (security_barrier) AS
SELECT CASE WHEN r.oid IS NULL THEN 'gone (' || a.target::oid || ')'
            WHEN NOT belfry.readable(n.nspname || '.' || r.relname) THEN 'unreadable (' || a.target::oid || ')' ELSE format('%I.%I', n.nspname, r.relname) END AS "table",
       a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.strict, a.attached_by, a.attached_at,
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
       l.failed_at AS last_failed_at, l.message AS last_failure
  FROM belfry.attachment a
  LEFT JOIN pg_catalog.pg_class r ON r.oid = a.target
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
  LEFT JOIN LATERAL (
        SELECT f.failed_at, f.message FROM belfry.attachment_failure f
         WHERE f.target = a.target AND f.queue = a.queue
         ORDER BY f.failed_at DESC
         LIMIT 1) AS l ON true
 WHERE belfry.owns_table(a.target, current_user);

-- What a constant is in an expression does not depend on the session. COLLATE asks for a
-- right in the schema of the collation, so it stands where it must.
CREATE OR REPLACE FUNCTION belfry.rows_of(p_table oid, p_transition name) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
    SELECT format('(SELECT %s FROM (SELECT *, %L::oid AS tableoid FROM %I) AS r)', string_agg(
               CASE WHEN a.attgenerated = 'v' THEN format('(%s)::%s%s AS %I', pg_get_expr(d.adbin, d.adrelid), format_type(a.atttypid, a.atttypmod),
                        (SELECT format(' COLLATE %I.%I', n.nspname, o.collname) FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
                           JOIN pg_type y ON y.oid = a.atttypid AND y.typcollation <> o.oid WHERE o.oid = a.attcollation), a.attname)
                    ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum),
               CASE WHEN NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = p_table) THEN p_table END, p_transition)
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
$$;
