-- What is attached stays so: the triggers call nothing that goes.
CREATE OR REPLACE FUNCTION belfry.attachment_function(
    p_target regclass, p_name text, p_event text, p_queue text, p_key text[], p_condition text, p_payload text, p_columns text[],
    p_strict boolean
) RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_side text := CASE WHEN p_event = 'delete' THEN 'old' ELSE 'new' END;
    v_columns text;
    -- No column of the table is called so.
    v_one text := 'belfry_row';
    -- Of a side, and json or jsonb. new.* is the row even where a column is called new.
    v_row text := 'pg_catalog.to_%2$s(%1$s.*)';
    v_lane text := quote_literal('Default');
    v_from text;
    v_payload text;
    v_where text[];
    v_body text;
    v_tag text := 'belfry';
BEGIN
    WHILE EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = p_target AND a.attname = v_one) LOOP
        v_one := v_one || '_';
    END LOOP;
    IF p_columns IS NOT NULL THEN
        SELECT string_agg(format('%%1$s.%s', replace(quote_ident(c), '%', '%%')), ', ' ORDER BY ord)
          INTO v_columns FROM unnest(p_columns) WITH ORDINALITY AS k(c, ord);
        v_row := '(SELECT pg_catalog.to_%2$s(k.*) FROM (SELECT ' || v_columns || ') AS k)';
    END IF;
    IF cardinality(p_key) > 0 THEN
        SELECT 'belfry.partition_of(' || string_agg(format('%s.%I::text', v_side, c), ', ' ORDER BY ord) || ')'
          INTO v_lane FROM unnest(p_key) WITH ORDINALITY AS k(c, ord);
    END IF;
    v_payload := format('''op'', %L, ''table'', belfry_attachment.source, ''row'', %s', p_event, format(v_row, v_side, 'json'));
    v_from := CASE p_event
        -- Both hold the rows in the order in which they were updated. A plan is kept that
        -- was made for as few rows as the first statement had. With a full join, which
        -- OFFSET 0 keeps one, it cannot be n * n steps for n rows.
        WHEN 'update' THEN format($t$
      FROM (SELECT n.nth, n.one AS new_one, o.one AS old_one
              FROM (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM belfry_new AS %1$s) AS n
              FULL JOIN (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM belfry_old AS %1$s) AS o ON o.nth = n.nth
            OFFSET 0) AS pair
     CROSS JOIN LATERAL (SELECT (pair.new_one).*) AS new
     CROSS JOIN LATERAL (SELECT (pair.old_one).*) AS old$t$, v_one)
        -- Without the table's name, which may change.
        WHEN 'insert' THEN E'\n      FROM belfry_new AS new\n      LEFT JOIN belfry_new AS old ON false'
        ELSE E'\n      FROM belfry_old AS old\n      LEFT JOIN belfry_old AS new ON false' END;
    IF p_payload = 'changes' AND p_event = 'update' THEN
        v_from := v_from || format($t$
     CROSS JOIN LATERAL (
            SELECT pg_catalog.json_object_agg(b.key, b.value) AS before
              FROM pg_catalog.jsonb_each(%s) AS b
              JOIN pg_catalog.jsonb_each(%s) AS a ON a.key = b.key
             WHERE a.value IS DISTINCT FROM b.value) AS changed$t$,
            format(v_row, 'old', 'jsonb'), format(v_row, 'new', 'jsonb'));
        v_payload := v_payload || ', ''old'', changed.before';
        v_where := v_where || 'changed.before IS NOT NULL'::text;
    END IF;
    IF p_condition IS NOT NULL THEN
        v_where := v_where || format(E'(%s\n           )', p_condition);
    END IF;
    v_body := format($t$
#variable_conflict use_column
<<belfry_attachment>>
DECLARE
    source text := pg_catalog.quote_ident(TG_TABLE_SCHEMA::text) || '.' || pg_catalog.quote_ident(TG_TABLE_NAME::text);
BEGIN
    INSERT INTO belfry.inbox (queue, partition, payload)
    SELECT %L, %s, pg_catalog.json_build_object(%s)%s%s%s;
    RETURN NULL;
%sEND $t$, p_queue, v_lane, v_payload, v_from,
        CASE WHEN v_where IS NULL THEN '' ELSE E'\n     WHERE ' || array_to_string(v_where, E'\n       AND ') END,
        CASE WHEN p_event = 'update' THEN E'\n     ORDER BY pair.nth' ELSE '' END,
        CASE WHEN p_strict THEN '' ELSE format($t$EXCEPTION WHEN OTHERS OR assert_failure THEN
    BEGIN
        PERFORM belfry.attachment_failed(TG_RELID::regclass, %L, %L, SQLSTATE, SQLERRM);
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'the messages of a table for queue "%%" were not written: %%', %1$L, SQLERRM;
    END;
    RETURN NULL;
$t$, p_queue, p_event) END);
    WHILE position('$' || v_tag || '$' IN v_body) > 0 LOOP
        v_tag := v_tag || '_';
    END LOOP;
    RETURN format(E'CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n'
                  'SET search_path = pg_catalog, %spg_temp AS $%s$%s$%3$s$',
        p_name,
        CASE WHEN p_condition IS NULL THEN '' ELSE
            (SELECT format('%I, ', n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_target) END,
        v_tag, v_body);
END $$;

CREATE OR REPLACE FUNCTION belfry.detach(target regclass, queue text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_owner name;
    a record;
    t record;
BEGIN
    SELECT pg_get_userbyid(c.relowner) INTO v_owner FROM pg_class c WHERE c.oid = target;
    IF v_owner IS NOT NULL AND NOT pg_has_role(current_user, v_owner, 'USAGE') THEN
        RAISE EXCEPTION '% may not detach %: it belongs to %', current_user, target, v_owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', v_owner, current_user);
    END IF;
    FOR a IN
        SELECT k.queue FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue)
        UNION
        SELECT queue FROM belfry.attachment_triggers(target, queue)
        ORDER BY 1
    LOOP
        FOR t IN SELECT s.trigger_name, s.function_oid FROM belfry.attachment_triggers(target, a.queue) AS s LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', t.trigger_name, target);
            IF t.function_oid IS NOT NULL THEN
                EXECUTE format('DROP FUNCTION %s', t.function_oid);
            END IF;
        END LOOP;
        DELETE FROM belfry.attachment_failure f WHERE f.target = target AND f.queue = a.queue;
        DELETE FROM belfry.attachment k WHERE k.target = target AND k.queue = a.queue;
        RETURN NEXT a.queue;
    END LOOP;
    -- Tables that are gone took their triggers with them.
    DELETE FROM belfry.attachment_failure f WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = f.target);
    DELETE FROM belfry.attachment k WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = k.target);
END $$;

DROP FUNCTION belfry.attachment_triggers(regclass, text);
CREATE FUNCTION belfry.attachment_triggers(p_target regclass, p_queue text)
RETURNS TABLE (trigger_name name, function_oid regprocedure) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.tgname, CASE WHEN f.proowner = c.relowner AND f.prosecdef AND f.proname LIKE 'belfry\_%' THEN f.oid::regprocedure END
      FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid
      JOIN pg_proc f ON f.oid = t.tgfoid
     WHERE t.tgrelid = p_target AND NOT t.tgisinternal
       AND t.tgname LIKE 'belfry\_' || left(md5(p_queue), 12) || '\_%'
     ORDER BY t.tgname
$$;

CREATE OR REPLACE FUNCTION belfry.owns_table(p_target oid, p_role name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT pg_catalog.pg_has_role(p_role, c.relowner, 'USAGE') FROM pg_catalog.pg_class c WHERE c.oid = p_target), true)
$$;

ALTER VIEW belfry.attachments RESET (security_barrier);
CREATE OR REPLACE VIEW belfry.attachments AS
SELECT CASE WHEN r.oid IS NULL THEN 'gone (' || a.target::oid || ')' ELSE format('%I.%I', n.nspname, r.relname) END AS "table",
       a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.strict, a.attached_by, a.attached_at,
       (SELECT count(*) FROM pg_catalog.pg_trigger t
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
         LIMIT 1) AS l ON true;

DROP TRIGGER attachment_forget ON belfry.attachment;
DROP FUNCTION belfry.attachment_forget();
DROP TRIGGER attachment_failure_trim ON belfry.attachment_failure;
DROP FUNCTION belfry.attachment_failure_trim();
