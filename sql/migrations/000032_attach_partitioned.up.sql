-- What attached tables told wrongly, and does since it was attached: attach it anew.
--
-- A partitioned table: with MERGE, the rows it updated after it had inserted one were told
-- as that one. Generated columns of rows that were inserted were NULL where a partition
-- stores its rows in another way than the table (a column of one of them was
-- dropped, or they are in another order). Both are how Postgres 14 to 18 fill
-- transition tables.
--
-- Virtual generated columns (Postgres 18) were NULL.
--
-- With standard_conforming_strings = off in the session that attached, triggers were not
-- found, and in that of a writer a condition could mean something else.

-- triggers: a partitioned table whose inserts or updates are told has one more, for each row,
-- and counts one less without it.
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

-- As before (migration 000019), and the one for each row of a partitioned table, which its
-- partitions have from it. It runs a function of the others.
CREATE OR REPLACE FUNCTION belfry.attachment_triggers(p_target regclass, p_queue text DEFAULT NULL)
RETURNS TABLE (trigger_name name, function_oid regprocedure, queue text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT t.tgname, CASE WHEN w.ours THEN f.oid::regprocedure END, coalesce(w.queue, p_queue, t.tgname::text)
      FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid
      JOIN pg_proc f ON f.oid = t.tgfoid
     -- As attachment_function writes it: with doubled quotes, and backslashes if E.
     CROSS JOIN LATERAL (
            SELECT substring(f.prosrc FROM 'INSERT INTO belfry\.inbox \(queue, partition, payload\)\s+SELECT\s+(E?''(?:[^'']|'''')*''), ') AS literal
     ) AS l
     CROSS JOIN LATERAL (
            SELECT f.proowner = c.relowner AND f.prosecdef AND f.proname LIKE 'belfry\_%' AS ours,
                   CASE WHEN l.literal LIKE 'E%' THEN replace(replace(substr(l.literal, 3, length(l.literal) - 3), '''''', ''''), '\\', '\')
                        ELSE replace(substr(l.literal, 2, length(l.literal) - 2), '''''', '''') END AS queue
     ) AS w
     WHERE t.tgrelid = p_target AND NOT t.tgisinternal AND t.tgparentid = 0
       AND (CASE WHEN p_queue IS NULL THEN t.tgname ~ '^belfry_[0-9a-f]{12}_(insert|update|delete|rows_[0-9]+)$'
                 ELSE t.tgname LIKE 'belfry\_' || left(md5(p_queue), 12) || '\_%' END
            OR w.ours AND w.queue = coalesce(p_queue, w.queue))
     ORDER BY t.tgname
$$;

CREATE OR REPLACE FUNCTION belfry.detach(target regclass, queue text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_owner name;
    v_queues text[] := '{}';
    v_functions regprocedure[];
    t record;
BEGIN
    SELECT pg_get_userbyid(c.relowner) INTO v_owner FROM pg_class c WHERE c.oid = target;
    IF v_owner IS NOT NULL AND NOT pg_has_role(current_user, v_owner, 'USAGE') THEN
        RAISE EXCEPTION '% may not detach %: it belongs to %', current_user, target, v_owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', v_owner, current_user);
    END IF;
    FOR t IN SELECT s.trigger_name, s.function_oid, s.queue FROM belfry.attachment_triggers(target, queue) AS s LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.trigger_name, target);
        v_functions := v_functions || t.function_oid;
        v_queues := v_queues || t.queue;
    END LOOP;
    FOR t IN SELECT DISTINCT f.id FROM unnest(v_functions) AS f(id) WHERE f.id IS NOT NULL LOOP
        EXECUTE format('DROP FUNCTION %s', t.id);
    END LOOP;
    RETURN QUERY
        SELECT k.queue FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue)
        UNION
        SELECT s.queue FROM unnest(v_queues) AS s(queue)
        ORDER BY 1;
    DELETE FROM belfry.attachment_failure f WHERE f.target = target AND f.queue = coalesce(queue, f.queue);
    DELETE FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue);
END $$;

-- The rows of a transition table of p_table, with its virtual columns, which are NULL in
-- it: a SELECT in parentheses.
CREATE FUNCTION belfry.rows_of(p_table oid, p_transition name) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('(SELECT %s FROM %I AS r)', string_agg(
               CASE WHEN a.attgenerated = 'v' THEN format('(%s) AS %I', pg_get_expr(d.adbin, d.adrelid), a.attname)
                    ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum), p_transition)
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
$$;

-- The text of the function that runs after each statement with p_event. It works
-- with the rights of the table's owner, and others may be able to make functions in
-- the table's schema: what is written here names its schema, and only a condition
-- is read with the table's.
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
    v_pairs boolean;
    v_insert text;
    v_body text;
    v_tag text := 'belfry';
    -- Where the rows are computed, the statement is put together when it runs, of what
    -- stands in these quotes, which nothing in it ends.
    v_computed boolean := EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = p_target AND a.attgenerated = 'v');
    v_quote text := 'belfry_text';
    v_old text := 'belfry_old';
    v_new text := 'belfry_new';
    v_source text := 'belfry_attachment.source';
    v_paired text := 'belfry_attachment.paired';
BEGIN
    IF v_computed THEN
        WHILE position(v_quote IN (SELECT concat_ws(' ', p_queue, p_condition, string_agg(a.attname, ' ')) FROM pg_attribute a WHERE a.attrelid = p_target)) > 0 LOOP
            v_quote := v_quote || '_';
        END LOOP;
        v_quote := '$' || v_quote || '$';
        v_old := v_quote || ' || belfry.rows_of(TG_RELID, ''belfry_old'') || ' || v_quote;
        v_new := v_quote || ' || belfry.rows_of(TG_RELID, ''belfry_new'') || ' || v_quote;
        v_source := '$1';
        v_paired := '$2';
    END IF;
    WHILE EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = p_target AND a.attname = v_one) LOOP
        v_one := v_one || '_';
    END LOOP;
    IF p_columns IS NOT NULL THEN
        SELECT string_agg(format('%%1$s.%s', replace(quote_ident(c), '%', '%%')), ', ' ORDER BY ord)
          INTO v_columns FROM unnest(p_columns) WITH ORDINALITY AS k(c, ord);
        v_row := '(SELECT pg_catalog.to_%2$s(k.*) FROM (SELECT ' || v_columns || ') AS k)';
    END IF;
    IF cardinality(p_key) > 0 THEN
        SELECT 'belfry.partition_of(' || string_agg(
                   format(CASE WHEN y.typtype = 'e' OR y.oid = ANY ('{int2,int4,int8,numeric,text,varchar,bpchar,name,uuid,bool}'::regtype[])
                               THEN '%s.%I::text' ELSE 'belfry.key_text(%s.%I)' END, v_side, c), ', ' ORDER BY ord) || ')'
          INTO v_lane
          FROM unnest(p_key) WITH ORDINALITY AS k(c, ord)
          JOIN pg_attribute a ON a.attrelid = p_target AND a.attname = k.c
          JOIN pg_type y ON y.oid = a.atttypid;
    END IF;
    v_payload := format('''op'', %L, ''table'', %s, ''row'', %s', p_event, v_source, format(v_row, v_side, 'json'));
    v_pairs := p_event = 'update' AND (p_payload = 'changes' OR p_condition IS NOT NULL);
    v_from := CASE
        -- Both hold the rows in the order in which they were updated, and a row that was
        -- swallowed on its way to another partition is in the old ones alone: then the
        -- nth of one is not that of the other, and nothing is paired. A plan is kept that
        -- was made for as few rows as the first statement had. With a full join, which
        -- OFFSET 0 keeps one, it cannot be n * n steps for n rows. A row of a transition
        -- table has places for the columns that were dropped, which (new_one).* does not
        -- count: the rows of the inner SELECT * have none.
        WHEN v_pairs THEN format($t$
      FROM (SELECT n.nth, n.one AS new_one, o.one AS old_one
              FROM (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM (SELECT * FROM %2$s AS r) AS %1$s) AS n
              FULL JOIN (SELECT CASE WHEN %4$s THEN pg_catalog.row_number() OVER () END AS nth, %1$s AS one
                           FROM (SELECT * FROM %3$s AS r) AS %1$s) AS o ON o.nth = n.nth
            OFFSET 0) AS pair
     CROSS JOIN LATERAL (SELECT (pair.new_one).*) AS new
     CROSS JOIN LATERAL (SELECT (pair.old_one).*) AS old$t$, v_one, v_new, v_old, v_paired)
        -- Without the table's name, which may change.
        WHEN p_event = 'delete' THEN format(E'\n      FROM %1$s AS old\n      LEFT JOIN %1$s AS new ON false', v_old)
        ELSE format(E'\n      FROM %1$s AS new\n      LEFT JOIN %1$s AS old ON false', v_new) END;
    IF v_pairs THEN
        v_where := v_where || 'pair.nth IS NOT NULL'::text;
    END IF;
    IF p_payload = 'changes' AND p_event = 'update' THEN
        v_from := v_from || format($t$
     CROSS JOIN LATERAL (
            SELECT pg_catalog.json_object_agg(b.key, b.value) AS before
              FROM pg_catalog.jsonb_each(%s) AS b
              JOIN pg_catalog.jsonb_each(%s) AS a ON a.key = b.key
             WHERE a.value IS DISTINCT FROM b.value) AS changed$t$,
            format(v_row, 'old', 'jsonb'), format(v_row, 'new', 'jsonb'));
        v_payload := v_payload || format(', ''old'', CASE WHEN %s THEN changed.before END', v_paired);
        v_where := v_where || format('(changed.before IS NOT NULL OR NOT %s)', v_paired);
    END IF;
    IF p_condition IS NOT NULL THEN
        -- What is not known of an old row is nothing to leave the new one out for.
        v_where := v_where || format(CASE WHEN v_pairs
            THEN E'COALESCE((%s\n           ), NOT %s)' ELSE E'(%s\n           )' END, p_condition, v_paired);
    END IF;
    v_insert := format($t$INSERT INTO belfry.inbox (queue, partition, payload)
    SELECT %L, %s, pg_catalog.json_build_object(%s)%s%s%s$t$, p_queue, v_lane, v_payload, v_from,
        CASE WHEN v_where IS NULL THEN '' ELSE E'\n     WHERE ' || array_to_string(v_where, E'\n       AND ') END,
        CASE WHEN v_pairs THEN E'\n     ORDER BY pair.nth' ELSE '' END);
    IF v_computed THEN
        v_insert := 'EXECUTE ' || v_quote || v_insert || v_quote || ' USING belfry_attachment.source'
            || CASE WHEN v_pairs THEN ', belfry_attachment.paired' ELSE '' END;
    END IF;
    v_body := format($t$
#variable_conflict use_column
<<belfry_attachment>>
DECLARE
    source text := pg_catalog.quote_ident(TG_TABLE_SCHEMA::text) || '.' || pg_catalog.quote_ident(TG_TABLE_NAME::text);
%sBEGIN
%s    %s;
    RETURN NULL;
%sEND $t$,
        CASE WHEN v_pairs THEN E'    paired boolean;\n' ELSE '' END,
        CASE WHEN v_pairs THEN
            E'    paired := (SELECT pg_catalog.count(*) FROM belfry_old) = (SELECT pg_catalog.count(*) FROM belfry_new);\n' ELSE '' END,
        v_insert,
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
                  'SET search_path = pg_catalog, %spg_temp%s AS $%s$%s$%4$s$',
        p_name,
        CASE WHEN p_condition IS NULL THEN '' ELSE
            (SELECT format('%I, ', n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_target) END,
        CASE WHEN p_condition IS NULL THEN '' ELSE ' SET standard_conforming_strings = on' END,
        v_tag, v_body);
END $$;

-- The statements that attach a table, one after the other; belfry.attach runs
-- them. It checks everything that can be checked before, and changes nothing.
CREATE OR REPLACE FUNCTION belfry.attach_sql(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    v_events text[];
    v_schema name;
    v_owner name;
    v_base text;
    v_function text;
    v_event text;
    v_sql text := '';
    v_gone regprocedure[];
    old record;
    v_plan refcursor;
    v_place text;
    v_partition regclass;
BEGIN
    PERFORM belfry.check_attachable(target);
    key := coalesce(key, '{}');
    IF queue IS NULL OR queue = '' OR octet_length(queue) > 255 THEN
        RAISE EXCEPTION 'the name of a queue has 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- In an order of their own, so that the same wish has the same text.
    SELECT array_agg(e.name ORDER BY e.ord) INTO v_events
      FROM unnest(ARRAY['insert', 'update', 'delete']) WITH ORDINALITY AS e(name, ord)
     WHERE e.name = ANY (SELECT lower(x) FROM unnest(events) AS x);
    IF v_events IS NULL OR EXISTS (SELECT 1 FROM unnest(events) AS x WHERE lower(x) IS NULL OR lower(x) <> ALL (v_events)) THEN
        RAISE EXCEPTION 'the events % are not known', events USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Name some of insert, update and delete. TRUNCATE has no rows to tell of.';
    END IF;
    IF payload IS NULL OR payload NOT IN ('row', 'changes') THEN
        RAISE EXCEPTION 'the payload % is not known', quote_nullable(payload) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''row'' or ''changes''; columns => says which columns it holds.';
    END IF;
    IF cardinality(columns) = 0 THEN
        columns := NULL;
    END IF;
    FOR v_event IN
        SELECT w.name FROM unnest(key || columns) AS w(name)
         WHERE NOT EXISTS (
                SELECT 1 FROM pg_attribute a
                 WHERE a.attrelid = target AND a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped)
    LOOP
        RAISE EXCEPTION '% has no column %', target, quote_nullable(v_event) USING ERRCODE = 'undefined_column',
            HINT = 'Its columns are ' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped) || '. Write a name as it is, without quotes.';
    END LOOP;
    SELECT n.nspname, pg_get_userbyid(c.relowner) INTO v_schema, v_owner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = target;
    IF condition IS NOT NULL THEN
        BEGIN
            PERFORM set_config('search_path', format('pg_catalog, %I, pg_temp', v_schema), true);
            -- An expression can stand in both places; what ends one of them, and goes on with
            -- something else, cannot. A cursor refuses several statements before it runs one.
            FOREACH v_place IN ARRAY ARRAY['(%2$s' || E'\n)', 'CASE WHEN %2$s' || E'\nTHEN true END'] LOOP
                OPEN v_plan FOR EXECUTE format(
                    'EXPLAIN SELECT 1 FROM (SELECT * FROM %1$s) AS new, (SELECT * FROM %1$s) AS old WHERE ' || v_place, target, condition);
                FETCH v_plan INTO v_event;
                CLOSE v_plan;
            END LOOP;
            PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
        EXCEPTION WHEN OTHERS THEN
            RAISE EXCEPTION 'the condition % cannot be used: %', quote_literal(condition), SQLERRM USING ERRCODE = SQLSTATE,
                HINT = 'It is a boolean expression over old and new, such as: new.total > 100 AND old.total IS DISTINCT FROM new.total. '
                    'In an insert all of old is NULL, in a delete all of new. Functions outside of the table''s schema need theirs.';
        END;
    END IF;

    v_base := 'belfry_' || left(md5(queue), 12) || '_';
    FOR old IN SELECT t.trigger_name, t.function_oid FROM belfry.attachment_triggers(target, queue) AS t LOOP
        v_sql := v_sql || format(E'DROP TRIGGER %I ON %s;\n', old.trigger_name, target);
        v_gone := array_append(v_gone, old.function_oid);
    END LOOP;
    FOR old IN SELECT DISTINCT f.id FROM unnest(v_gone) AS f(id) WHERE f.id IS NOT NULL LOOP
        v_sql := v_sql || format(E'DROP FUNCTION %s;\n', old.id);
    END LOOP;
    FOREACH v_event IN ARRAY v_events LOOP
        -- The owner's: what an owner before has left has another name.
        v_function := format('%I.%I', v_schema, 'belfry_' || left(md5(target::oid || '/' || v_owner || '/' || queue), 12) || '_' || v_event);
        IF to_regprocedure(v_function || '()') IS NOT NULL
            AND array_position(v_gone, to_regprocedure(v_function || '()')) IS NULL
        THEN
            -- Left by a table that came back to its owner, or somebody else's, with rights of its own.
            v_sql := v_sql || format(E'DROP FUNCTION %s();\n', v_function);
        END IF;
        v_sql := v_sql || belfry.attachment_function(target, v_function, v_event, queue, key, condition, payload, columns, strict) || E';\n'
            || format(E'REVOKE ALL ON FUNCTION %s() FROM PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %I;\n', v_function, v_owner)
            || format(E'CREATE TRIGGER %I AFTER %s ON %s\n    REFERENCING%s FOR EACH STATEMENT EXECUTE FUNCTION %s();\n',
                v_base || v_event, upper(v_event), target,
                CASE v_event WHEN 'insert' THEN ' NEW TABLE AS belfry_new' WHEN 'delete' THEN ' OLD TABLE AS belfry_old'
                             ELSE ' OLD TABLE AS belfry_old NEW TABLE AS belfry_new' END, v_function);
    END LOOP;
    IF EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = target AND c.relkind = 'p') AND v_events <> '{delete}' THEN
        -- It runs never. Where a partition has one, Postgres takes what a statement inserted
        -- from what was stored; else generated columns are NULL where it is stored in another
        -- way than in the table, and MERGE tells what it inserted last as the rows it updates.
        SELECT r.relid INTO v_partition FROM pg_partition_tree(target) AS r WHERE NOT has_table_privilege(r.relid, 'TRIGGER') ORDER BY 1 LIMIT 1;
        IF v_partition IS NOT NULL THEN
            RAISE EXCEPTION '% may not make a trigger on %, a partition of %', current_user, v_partition, target
                USING ERRCODE = 'insufficient_privilege', HINT = format('GRANT TRIGGER ON %s TO %I;', v_partition, current_user);
        END IF;
        v_sql := v_sql || format(E'CREATE TRIGGER %I BEFORE INSERT ON %s\n    FOR EACH ROW WHEN (false) EXECUTE FUNCTION %s();\n',
            v_base || 'rows_' || target::oid, target, v_function);
    END IF;
    RETURN v_sql
        || format(E'DELETE FROM belfry.attachment WHERE target = %L::regclass AND queue = %L;\n', target, queue)
        || format(E'INSERT INTO belfry.attachment (target, queue, events, key, condition, payload, columns, strict)\n'
                  'VALUES (%L::regclass, %L, %L, %L, %L, %L, %L, %L);' || E'\n', target, queue, v_events, key, condition, payload, columns, strict);
END $$;

-- The digits without backslashes.
CREATE OR REPLACE FUNCTION belfry.session_floor(p_setting text, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The floor and until when, in microseconds. Anybody may have written anything.
    v_kept text[] := regexp_match(current_setting(p_setting, true), '^([0-9]{1,16})/([0-9]{1,16})$');
BEGIN
    IF to_timestamp(v_kept[2]::bigint / 1e6) BETWEEN p_now AND p_now + interval '10 seconds' THEN
        RETURN to_timestamp(v_kept[1]::bigint / 1e6);
    END IF;
    RETURN '-infinity';
END $$;
