-- Tables whose changes become messages: belfry.attach makes triggers that write
-- to the inbox. What they do and what they do not see is told in pkg/attach.

-- What is attached. The triggers are the truth; this is what they were made from.
CREATE TABLE belfry.attachment (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target      regclass NOT NULL,
    queue       text NOT NULL,
    events      text[] NOT NULL,
    -- Columns whose values are the partition's name; empty: all in one.
    key         text[] NOT NULL,
    condition   text,
    payload     text NOT NULL,
    -- The columns the payload holds; NULL: all.
    columns     text[],
    strict      boolean NOT NULL,
    attached_by name NOT NULL DEFAULT current_user,
    attached_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (target, queue)
);

-- Statements whose messages could not be written, and which went on without.
CREATE TABLE belfry.attachment_failure (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target    regclass NOT NULL,
    queue     text NOT NULL,
    event     text NOT NULL,
    code      text NOT NULL,
    message   text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX attachment_failure_latest ON belfry.attachment_failure (target, queue, failed_at);

-- Whoever may attach a table may say so, and nobody else; likewise its failures.
-- What belongs to a table that is gone may be removed by anybody who attaches. It is
-- read with a path of its own: with the caller's, an operator of theirs would decide.
CREATE FUNCTION belfry.owns_table(p_target oid, p_role name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT pg_catalog.pg_has_role(p_role, c.relowner, 'USAGE') FROM pg_catalog.pg_class c WHERE c.oid = p_target), true)
$$;
ALTER TABLE belfry.attachment ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachment_owner ON belfry.attachment USING (belfry.owns_table(target, current_user));
ALTER TABLE belfry.attachment_failure ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachment_failure_owner ON belfry.attachment_failure USING (belfry.owns_table(target, current_user));

-- What is attached, as an operator sees it. triggers: how many of them exist and
-- are enabled; there is one for each event.
CREATE VIEW belfry.attachments AS
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

-- The partition of a message: the texts of its key, those that are not NULL, with
-- a slash between them. A name that would be too long is its hash instead.
CREATE FUNCTION belfry.partition_of(VARIADIC p_key text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN k.name IS NULL OR k.name = '' THEN 'Default'
                WHEN octet_length(k.name) > 255 THEN 'md5:' || md5(k.name)
                ELSE k.name END
      FROM (SELECT array_to_string(p_key, '/') AS name) AS k
$$;

-- Tells that a statement's messages could not be written: a warning for each, and
-- a row for the operator, about one a second. It never fails.
CREATE FUNCTION belfry.attachment_failed(p_target regclass, p_queue text, p_event text, p_code text, p_message text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING 'the messages of an % of % for queue "%" were not written: %', p_event, p_target, p_queue, p_message
        USING HINT = 'The statement itself was not disturbed. See belfry.attachments.';
    INSERT INTO belfry.attachment_failure (target, queue, event, code, message)
    SELECT p_target, p_queue, p_event, p_code, p_message
     WHERE NOT EXISTS (
            SELECT 1 FROM belfry.attachment_failure f
             WHERE f.target = p_target AND f.queue = p_queue AND f.failed_at > clock_timestamp() - interval '1 second');
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'and that could not be noted: %', SQLERRM;
END $$;

-- The triggers of an attachment, and the functions they run. The name of a trigger
-- is no proof, since a table's owner names them, and whoever detaches may have more
-- rights: function_oid is NULL for one that belongs to somebody else. Those of the
-- owner before ALTER TABLE OWNER TO are left to him.
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

-- Checks that a table may be attached by whoever calls, and says what is missing.
CREATE FUNCTION belfry.check_attachable(p_target regclass) RETURNS void LANGUAGE plpgsql STABLE
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
CREATE FUNCTION belfry.attachment_function(
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

-- The statements that attach a table, one after the other; belfry.attach runs
-- them. It checks everything that can be checked before, and changes nothing.
CREATE FUNCTION belfry.attach_sql(
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
BEGIN
    PERFORM belfry.check_attachable(target);
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
            EXECUTE format(E'EXPLAIN SELECT 1 FROM (SELECT * FROM %1$s) AS new, (SELECT * FROM %1$s) AS old WHERE (%2$s\n)', target, condition);
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

-- Makes every change of a table a message of a queue; what was attached to it for
-- that queue before is replaced. The table belongs to the caller, or to a role
-- the caller is a member of, and its owner is a producer.
CREATE FUNCTION belfry.attach(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE belfry.attach_sql(target, queue, events, key, condition, payload, columns, strict);
END $$;

-- Takes the triggers of a table away, those of one queue or all of them. Returns
-- the queues it fed.
CREATE FUNCTION belfry.detach(target regclass, queue text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql
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
