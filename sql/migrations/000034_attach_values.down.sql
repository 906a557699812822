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

CREATE OR REPLACE VIEW belfry.attachments WITH (security_barrier) AS
SELECT CASE WHEN r.oid IS NULL THEN 'gone (' || a.target::oid || ')' ELSE format('%I.%I', n.nspname, r.relname) END AS "table",
       a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.strict, a.attached_by, a.attached_at,
       (SELECT count(*) FILTER (WHERE t.tgtype & 1 = 0) - CASE WHEN r.relkind = 'p' AND a.events <> '{delete}' AND count(*) FILTER (WHERE t.tgtype & 1 = 1) = 0 THEN 1 ELSE 0 END
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

CREATE OR REPLACE FUNCTION belfry.rows_of(p_table oid, p_transition name) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('(SELECT %s FROM %I AS r)', string_agg(
               CASE WHEN a.attgenerated = 'v' THEN format('(%s) AS %I', pg_get_expr(d.adbin, d.adrelid), a.attname)
                    ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum), p_transition)
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
$$;

SELECT pg_temp.rewrite('belfry.attachment_triggers(regclass, text)',
    $r$f.proowner = c.relowner AND (f.prosecdef OR f.proname LIKE '%\_rows') AND f.proname LIKE 'belfry\_%' AS ours$r$,
    $r$f.proowner = c.relowner AND f.prosecdef AND f.proname LIKE 'belfry\_%' AS ours$r$);

SELECT pg_temp.rewrite('belfry.attach_sql(regclass, text, text[], text[], text, text, text[], boolean)',
    $r$    v_base := 'belfry_' || left(md5(queue), 12) || '_';
    v_rows := v_events <> '{delete}' AND EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = target AND c.relkind = 'p');
$r$,
    $r$    v_base := 'belfry_' || left(md5(queue), 12) || '_';
$r$,
    $r$    v_partition regclass;
    v_rows boolean;
$r$,
    $r$    v_partition regclass;
$r$,
    $r$    IF v_rows THEN
$r$,
    $r$    IF EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = target AND c.relkind = 'p') AND v_events <> '{delete}' THEN
$r$,
    $r$        IF v_event = 'rows' THEN
            -- What follows RETURN says whose it is, as in the others.
            v_sql := v_sql || format(E'CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $belfry$\nBEGIN\n    RETURN NEW;\n'
                    '    INSERT INTO belfry.inbox (queue, partition, payload)\n    SELECT %L, NULL, NULL;\nEND $belfry$;\n'
                    'GRANT EXECUTE ON FUNCTION %1$s() TO PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %3$I;\n', v_function, queue, v_owner);
            CONTINUE;
        END IF;
        v_sql := v_sql || belfry.attachment_function($r$,
    $r$        v_sql := v_sql || belfry.attachment_function($r$,
    $r$    -- The one for each row has a function of its own, which everybody may run: who makes a partition
    -- makes its trigger, and need not be who owned the table when it was attached.
    FOREACH v_event IN ARRAY v_events || CASE WHEN v_rows THEN '{rows}'::text[] END LOOP
        -- The owner's$r$,
    $r$    FOREACH v_event IN ARRAY v_events LOOP
        -- The owner's$r$,
    $r$    PERFORM convert_to(concat_ws(' ', queue, condition, target, key, columns), 'UTF8');
$r$,
    $r$    PERFORM convert_to(queue, 'UTF8'), convert_to(condition, 'UTF8');
$r$);

SELECT pg_temp.rewrite('belfry.attachment_failed(regclass, text, text, text, text)',
    $r$p_code, p_message$r$,
    $r$p_code, CASE WHEN belfry.readable(p_message) THEN p_message ELSE 'an error that cannot be read as UTF-8' END$r$,
    $r$BEGIN
    IF NOT belfry.readable(p_message) THEN
        p_message := 'an error that cannot be read as UTF-8';
    END IF;
    RAISE WARNING 'the messages of$r$,
    $r$BEGIN
    RAISE WARNING 'the messages of$r$);

SELECT pg_temp.rewrite('belfry.attachment_failure_trim()',
    $r$    FOR n IN REVERSE 2000 .. 1997 LOOP -- where the encoding is SQL_ASCII a letter may be cut
        NEW.message := left(NEW.message, n);
        EXIT WHEN belfry.readable(NEW.message);
    END LOOP;
$r$,
    $r$    NEW.message := left(NEW.message, 2000);
$r$);
