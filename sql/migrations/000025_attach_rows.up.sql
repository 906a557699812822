-- What was wrong around attached tables. Functions that were made before stay as they
-- were but for the first of these: attach a table anew to have the rest.
--
-- Where a column had been dropped, what needs the old row (the payload changes, a
-- condition) read the columns behind it from the wrong places of an update's rows.
--
-- The partition of a key that is a date, a time, a float or bytea depended on settings of
-- the session that wrote (DateStyle, TimeZone, ...), so that changes of one key could
-- go to several.
--
-- An array_to_string(text[], text) in the table's schema was taken for that of Postgres.
--
-- A condition could end the parentheses it stands in, and what followed ran also when
-- the SQL was only to be printed.
--
-- A foreign table below the attached one made Postgres refuse the user's statement.

-- The partition of a message: the texts of its key, those that are not NULL, with
-- a slash between them. A name that would be too long is its hash instead. It is called
-- where the table's schema is in the path.
CREATE OR REPLACE FUNCTION belfry.partition_of(VARIADIC p_key text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN k.name IS NULL OR k.name = '' THEN 'Default'
                WHEN pg_catalog.octet_length(k.name) > 255 THEN 'md5:' || pg_catalog.md5(k.name)
                ELSE k.name END
      FROM (SELECT pg_catalog.array_to_string(p_key, '/') AS name) AS k
$$;

-- The text of a value, whatever the settings of the session.
CREATE FUNCTION belfry.key_text(p_value anyelement) RETURNS text LANGUAGE plpgsql STABLE
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1
SET lc_monetary = 'C' AS $$
BEGIN
    RETURN p_value::text;
END $$;

-- Checks that a table may be attached by whoever calls, and says what is missing.
CREATE OR REPLACE FUNCTION belfry.check_attachable(p_target regclass) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    SELECT c.relkind, c.relowner, c.relpersistence, n.oid AS schema_id, n.nspname, pg_get_userbyid(c.relowner) AS owner INTO r
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = p_target;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no table to attach' USING ERRCODE = 'undefined_table',
            HINT = 'Write the table as ''schema.table'', with double quotes inside around names that need them.';
    ELSIF r.relkind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION '% is not a table, so its changes cannot be seen', p_target USING ERRCODE = 'wrong_object_type',
            HINT = 'Attach the tables that a view or a foreign table stands for.';
    ELSIF r.nspname IN ('belfry', 'pg_catalog', 'information_schema') OR r.relpersistence = 't' THEN
        RAISE EXCEPTION '% cannot be attached', p_target USING ERRCODE = 'wrong_object_type',
            HINT = 'Tables of Belfry itself, of the system and temporary ones are left alone.';
    ELSIF EXISTS (
        WITH RECURSIVE k(id) AS (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = p_target
            UNION
            SELECT i.inhrelid FROM pg_inherits i JOIN k ON k.id = i.inhparent
        )
        SELECT 1 FROM k JOIN pg_class c ON c.oid = k.id WHERE c.relkind = 'f')
    THEN
        RAISE EXCEPTION '% has foreign tables below it, and then Postgres refuses statements that reach them', p_target
            USING ERRCODE = 'wrong_object_type', HINT = 'Attach those below it that are tables, and name them in the statements that change them.';
    ELSIF NOT pg_has_role(current_user, r.relowner, 'USAGE') THEN
        RAISE EXCEPTION '% may not attach %: it belongs to %', current_user, p_target, r.owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', r.owner, current_user);
    ELSIF NOT has_schema_privilege(r.relowner, 'belfry', 'USAGE') OR NOT has_any_column_privilege(r.relowner, 'belfry.inbox', 'INSERT') THEN
        RAISE EXCEPTION '%, who owns %, may not write to belfry.inbox', r.owner, p_target USING ERRCODE = 'insufficient_privilege',
            DETAIL = 'The triggers work with the rights of the table''s owner, whoever changes the table.',
            HINT = format('GRANT belfry_producer TO %I;', r.owner);
    ELSIF NOT has_schema_privilege(current_user, r.schema_id, 'CREATE') OR NOT has_schema_privilege(r.relowner, r.schema_id, 'CREATE') THEN
        RAISE EXCEPTION 'the functions of the triggers cannot be made in schema %', r.nspname USING ERRCODE = 'insufficient_privilege',
            HINT = format('GRANT CREATE ON SCHEMA %I TO %I;', r.nspname,
                CASE WHEN has_schema_privilege(current_user, r.schema_id, 'CREATE') THEN r.owner ELSE current_user END);
    END IF;
END $$;

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
        SELECT 'belfry.partition_of(' || string_agg(
                   format(CASE WHEN y.typtype = 'e' OR y.oid = ANY ('{int2,int4,int8,numeric,text,varchar,bpchar,name,uuid,bool}'::regtype[])
                               THEN '%s.%I::text' ELSE 'belfry.key_text(%s.%I)' END, v_side, c), ', ' ORDER BY ord) || ')'
          INTO v_lane
          FROM unnest(p_key) WITH ORDINALITY AS k(c, ord)
          JOIN pg_attribute a ON a.attrelid = p_target AND a.attname = k.c
          JOIN pg_type y ON y.oid = a.atttypid;
    END IF;
    v_payload := format('''op'', %L, ''table'', belfry_attachment.source, ''row'', %s', p_event, format(v_row, v_side, 'json'));
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
              FROM (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM (SELECT * FROM belfry_new) AS %1$s) AS n
              FULL JOIN (SELECT CASE WHEN belfry_attachment.paired THEN pg_catalog.row_number() OVER () END AS nth, %1$s AS one
                           FROM (SELECT * FROM belfry_old) AS %1$s) AS o ON o.nth = n.nth
            OFFSET 0) AS pair
     CROSS JOIN LATERAL (SELECT (pair.new_one).*) AS new
     CROSS JOIN LATERAL (SELECT (pair.old_one).*) AS old$t$, v_one)
        -- Without the table's name, which may change.
        WHEN p_event = 'delete' THEN E'\n      FROM belfry_old AS old\n      LEFT JOIN belfry_old AS new ON false'
        ELSE E'\n      FROM belfry_new AS new\n      LEFT JOIN belfry_new AS old ON false' END;
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
        v_payload := v_payload || ', ''old'', CASE WHEN belfry_attachment.paired THEN changed.before END';
        v_where := v_where || '(changed.before IS NOT NULL OR NOT belfry_attachment.paired)'::text;
    END IF;
    IF p_condition IS NOT NULL THEN
        -- What is not known of an old row is nothing to leave the new one out for.
        v_where := v_where || format(CASE WHEN v_pairs
            THEN E'COALESCE((%s\n           ), NOT belfry_attachment.paired)' ELSE E'(%s\n           )' END, p_condition);
    END IF;
    v_body := format($t$
#variable_conflict use_column
<<belfry_attachment>>
DECLARE
    source text := pg_catalog.quote_ident(TG_TABLE_SCHEMA::text) || '.' || pg_catalog.quote_ident(TG_TABLE_NAME::text);
%sBEGIN
%s    INSERT INTO belfry.inbox (queue, partition, payload)
    SELECT %L, %s, pg_catalog.json_build_object(%s)%s%s%s;
    RETURN NULL;
%sEND $t$,
        CASE WHEN v_pairs THEN E'    paired boolean;\n' ELSE '' END,
        CASE WHEN v_pairs THEN
            E'    paired := (SELECT pg_catalog.count(*) FROM belfry_old) = (SELECT pg_catalog.count(*) FROM belfry_new);\n' ELSE '' END,
        p_queue, v_lane, v_payload, v_from,
        CASE WHEN v_where IS NULL THEN '' ELSE E'\n     WHERE ' || array_to_string(v_where, E'\n       AND ') END,
        CASE WHEN v_pairs THEN E'\n     ORDER BY pair.nth' ELSE '' END,
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

-- The statements that attach a table, one after the other; belfry.attach runs
-- them. It checks everything that can be checked before, and changes nothing.
CREATE OR REPLACE FUNCTION belfry.attach_sql(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
        v_sql := v_sql || format(E'DROP TRIGGER %I ON %s;\n', old.trigger_name, target)
            || coalesce('DROP FUNCTION ' || old.function_oid || E';\n', '');
        v_gone := array_append(v_gone, old.function_oid);
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
    RETURN v_sql
        || format(E'DELETE FROM belfry.attachment WHERE target = %L::regclass AND queue = %L;\n', target, queue)
        || format(E'INSERT INTO belfry.attachment (target, queue, events, key, condition, payload, columns, strict)\n'
                  'VALUES (%L::regclass, %L, %L, %L, %L, %L, %L, %L);' || E'\n', target, queue, v_events, key, condition, payload, columns, strict);
END $$;

-- What was attached since migration 000019 reads its rows from the right places, too.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT DISTINCT p.oid
               FROM pg_catalog.pg_proc p
               JOIN pg_catalog.pg_trigger t ON t.tgfoid = p.oid
               JOIN pg_catalog.pg_language l ON l.oid = p.prolang AND l.lanname = 'plpgsql'
              WHERE t.tgname LIKE 'belfry\_%' AND p.prosecdef AND p.prosrc ~ 'FROM belfry_(new|old) AS belfry_row_*\) AS [no]\M'
    LOOP
        BEGIN
            EXECUTE regexp_replace(pg_get_functiondef(f.oid), 'FROM (belfry_(?:new|old)) AS (belfry_row_*)\) AS ([no])\M',
                'FROM (SELECT * FROM \1) AS \2) AS \3', 'g');
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE WARNING 'the table of % is to be attached anew by its owner: %', f.oid::regprocedure, SQLERRM;
        END;
    END LOOP;
END $$;
