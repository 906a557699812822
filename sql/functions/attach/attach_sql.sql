-- Returns the statements that attach a table. belfry.attach has the same parameters and runs the
-- statements. attach_sql checks as much as possible in advance, and changes nothing.
CREATE FUNCTION belfry.attach_sql(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false, headers text DEFAULT NULL
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
    v_headers text := headers; -- an expression
    v_partition regclass;
    v_rows boolean;
BEGIN
    PERFORM belfry.check_attachable(target);
    key := coalesce(key, '{}');
    IF queue IS NULL OR queue IN ('', '.', '..') OR octet_length(queue) > 255 THEN
        RAISE EXCEPTION 'the name of a queue has 1 to 255 bytes, and is not . or ..' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM convert_to(concat_ws(' ', queue, condition, headers, target, key, columns), 'UTF8');
    -- The order of the events is fixed, so equal arguments give equal text.
    SELECT array_agg(e.name ORDER BY e.ord) INTO v_events
      FROM unnest(ARRAY['insert', 'update', 'delete']) WITH ORDINALITY AS e(name, ord)
     WHERE e.name = ANY (SELECT lower(x COLLATE "C") FROM unnest(events) AS x);
    IF v_events IS NULL OR EXISTS (SELECT 1 FROM unnest(events) AS x WHERE lower(x COLLATE "C") IS NULL OR lower(x COLLATE "C") <> ALL (v_events)) THEN
        RAISE EXCEPTION 'the events % are not known', events USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give one or more of insert, update and delete. TRUNCATE makes no messages.';
    END IF;
    IF payload IS NULL OR payload NOT IN ('row', 'changes') THEN
        RAISE EXCEPTION 'the payload % is not known', quote_nullable(payload) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''row'' or ''changes''. The argument columns selects the columns in the payload.';
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
                WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped) || '. Write the name without quotes.';
    END LOOP;
    SELECT n.nspname, pg_get_userbyid(c.relowner) INTO v_schema, v_owner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = target;
    IF belfry.pushes_are_checked() THEN
        PERFORM belfry.check_push_grants(v_owner, ARRAY[queue]);
    END IF;
    IF condition IS NOT NULL THEN
        PERFORM belfry.check_expression(target, v_schema, condition, false);
    END IF;
    IF ltrim(headers) LIKE '{%' THEN
        BEGIN
            v_headers := format('%L', belfry.check_headers(headers::json));
        EXCEPTION WHEN invalid_text_representation THEN
            RAISE EXCEPTION 'the headers % are not JSON', quote_literal(headers) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give an object of texts, such as ''{"tenant": "acme"}'', or an expression such as ''json_build_object(''''tenant'''', new.tenant)''.';
        END;
    ELSIF headers IS NOT NULL THEN
        PERFORM belfry.check_expression(target, v_schema, headers, true);
    END IF;

    v_base := 'belfry_' || left(md5(queue), 12) || '_';
    v_rows := v_events <> '{delete}' AND EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = target AND c.relkind = 'p');
    FOR old IN SELECT t.trigger_name, t.function_oid FROM belfry.attachment_triggers(target, queue) AS t LOOP
        v_sql := v_sql || format(E'DROP TRIGGER %I ON %s;\n', old.trigger_name, target);
        v_gone := array_append(v_gone, old.function_oid);
    END LOOP;
    -- The function stays while a trigger of another table uses it.
    FOR old IN
        SELECT DISTINCT f.id FROM unnest(v_gone) AS f(id)
         WHERE f.id IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM pg_trigger t WHERE t.tgfoid = f.id AND t.tgparentid = 0 AND t.tgrelid <> target)
    LOOP
        v_sql := v_sql || format(E'DROP FUNCTION %s;\n', old.id);
    END LOOP;
    -- Every role may execute the function of the row trigger: whoever creates a partition also creates
    -- the row trigger of the partition.
    FOREACH v_event IN ARRAY v_events || CASE WHEN v_rows THEN '{rows}'::text[] END LOOP
        -- The name contains a hash of the owner, so functions of an earlier owner have other names.
        v_function := format('%I.%I', v_schema, 'belfry_' || left(md5(target::oid || '/' || v_owner || '/' || queue), 12) || '_' || v_event);
        IF to_regprocedure(v_function || '()') IS NOT NULL
            AND array_position(v_gone, to_regprocedure(v_function || '()')) IS NULL AND v_event <> 'rows'
        THEN
            -- This owner owned the table before, or another role created a function of this name.
            v_sql := v_sql || format(E'DROP FUNCTION %s();\n', v_function);
        END IF;
        IF v_event = 'rows' THEN
            -- attachment_triggers reads the queue from the text after RETURN.
            v_sql := v_sql || format(E'CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS %L;\n'
                    'GRANT EXECUTE ON FUNCTION %1$s() TO PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %3$I;\n', v_function,
                    format(E'\nBEGIN\n    RETURN NEW;\n    INSERT INTO belfry.inbox (queue, partition, payload)\n    SELECT %L, NULL, NULL;\nEND ', queue),
                    v_owner);
            CONTINUE;
        END IF;
        v_sql := v_sql || belfry.attachment_function(target, v_function, v_event, queue, key, condition, payload, columns, strict, v_headers) || E';\n'
            || format(E'REVOKE ALL ON FUNCTION %s() FROM PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %I;\n', v_function, v_owner)
            || format(E'CREATE TRIGGER %I AFTER %s ON %s\n    REFERENCING%s FOR EACH STATEMENT EXECUTE FUNCTION %s();\n',
                v_base || v_event, upper(v_event COLLATE "C"), target,
                CASE v_event WHEN 'insert' THEN ' NEW TABLE AS belfry_new' WHEN 'delete' THEN ' OLD TABLE AS belfry_old'
                             ELSE ' OLD TABLE AS belfry_old NEW TABLE AS belfry_new' END, v_function);
    END LOOP;
    IF v_rows THEN
        -- This trigger never runs. It makes Postgres read inserted rows as they were stored. Without
        -- this trigger, generated columns are NULL if a partition has another column order, and MERGE
        -- gives the last inserted row in place of each updated row.
        SELECT r.relid INTO v_partition FROM pg_partition_tree(target) AS r WHERE NOT has_table_privilege(r.relid, 'TRIGGER') ORDER BY 1 LIMIT 1;
        IF v_partition IS NOT NULL THEN
            RAISE EXCEPTION '% may not make a trigger on %, a partition of %', current_user, v_partition, target
                USING ERRCODE = 'insufficient_privilege', HINT = format('GRANT TRIGGER ON %s TO %I;', v_partition, current_user);
        END IF;
        v_sql := v_sql || format(E'CREATE TRIGGER %I BEFORE INSERT ON %s\n    FOR EACH ROW WHEN (false) EXECUTE FUNCTION %s();\n',
            v_base || 'rows_' || target::oid, target, v_function);
    END IF;
    RETURN v_sql
        || format(E'UPDATE belfry.attachment SET events = ''{}'' WHERE target = %L::regclass AND queue = %L;\n', target, queue)
        || format(E'INSERT INTO belfry.attachment (target, queue, events, key, condition, payload, columns, strict, headers)\n'
                  'VALUES (%L::regclass, %L, %L, %L, %L, %L, %L, %L, %L);' || E'\n', target, queue, v_events, key, condition, payload, columns, strict,
                  headers);
END $$;
