-- What migrations 000014 and 000016 left open around attached tables. Functions that
-- were made before are as they were: attach a partitioned table anew to have what
-- is new in attachment_function.

-- Keeps the latest 100 failures of each attachment, with as much of a message as
-- an operator reads. It waits for nobody: what another transaction removes, or
-- holds, is left to the next failure.
CREATE FUNCTION belfry.attachment_failure_trim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.message := left(NEW.message, 2000);
    DELETE FROM belfry.attachment_failure f
     WHERE f.id IN (
            SELECT h.id FROM belfry.attachment_failure h
             WHERE h.id IN (
                    SELECT o.id FROM belfry.attachment_failure o
                     WHERE o.target = NEW.target AND o.queue = NEW.queue
                     ORDER BY o.failed_at DESC, o.id DESC
                    OFFSET 99)
               FOR UPDATE SKIP LOCKED);
    RETURN NEW;
EXCEPTION WHEN serialization_failure THEN -- removed since the snapshot
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION belfry.attachment_failure_trim() FROM PUBLIC;
CREATE TRIGGER attachment_failure_trim BEFORE INSERT ON belfry.attachment_failure
    FOR EACH ROW EXECUTE FUNCTION belfry.attachment_failure_trim();
DELETE FROM belfry.attachment_failure f
 USING (SELECT o.id, row_number() OVER (PARTITION BY o.target, o.queue ORDER BY o.failed_at DESC, o.id DESC) AS nth
          FROM belfry.attachment_failure o) AS o
 WHERE o.id = f.id AND o.nth > 100;
UPDATE belfry.attachment_failure SET message = left(message, 2000) WHERE length(message) > 2000;

-- Forgets tables that are gone, whoever attaches or detaches one: nobody owns what
-- was noted of them.
CREATE FUNCTION belfry.attachment_forget() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM belfry.attachment_failure f
     WHERE f.id IN (
            SELECT g.id FROM belfry.attachment_failure g
             WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = g.target)
               FOR UPDATE SKIP LOCKED);
    DELETE FROM belfry.attachment a
     WHERE a.id IN (
            SELECT g.id FROM belfry.attachment g
             WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = g.target)
               FOR UPDATE SKIP LOCKED);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION belfry.attachment_forget() FROM PUBLIC;
CREATE TRIGGER attachment_forget AFTER INSERT OR DELETE ON belfry.attachment
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION belfry.attachment_forget();

-- Whose an attachment and its failures are: the owner's of the table, and those of
-- an admin, who is known by the right to change what is noted. What is noted of a
-- table that is gone is an admin's.
CREATE OR REPLACE FUNCTION belfry.owns_table(p_target oid, p_role name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.has_table_privilege(p_role, 'belfry.attachment', 'UPDATE')
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = p_target AND pg_catalog.pg_has_role(p_role, c.relowner, 'USAGE'))
$$;

-- The condition and the errors of an attachment tell what is in the table: only those
-- see one who may see it in belfry.attachment. failures: of those that are kept.
CREATE OR REPLACE VIEW belfry.attachments WITH (security_barrier) AS
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
         LIMIT 1) AS l ON true
 WHERE belfry.owns_table(a.target, current_user);

-- The triggers of an attachment, or with p_queue NULL of all of a table, the functions
-- they run and the queue these write to. They are found by their names, and by what
-- their functions are, whatever is noted. The name of a trigger is no proof, since
-- a table's owner names them, and whoever detaches may have more rights: function_oid
-- is NULL for one that belongs to somebody else. Those of the owner before ALTER
-- TABLE OWNER TO are left to him.
DROP FUNCTION belfry.attachment_triggers(regclass, text);
CREATE FUNCTION belfry.attachment_triggers(p_target regclass, p_queue text DEFAULT NULL)
RETURNS TABLE (trigger_name name, function_oid regprocedure, queue text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
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
     WHERE t.tgrelid = p_target AND NOT t.tgisinternal
       AND (CASE WHEN p_queue IS NULL THEN t.tgname ~ '^belfry_[0-9a-f]{12}_(insert|update|delete)$'
                 ELSE t.tgname LIKE 'belfry\_' || left(md5(p_queue), 12) || '\_%' END
            OR w.ours AND w.queue = coalesce(p_queue, w.queue))
     ORDER BY t.tgname
$$;

-- Takes the triggers of a table away, those of one queue or all of them, also those
-- of which nothing is noted (any more). Returns the queues it fed.
CREATE OR REPLACE FUNCTION belfry.detach(target regclass, queue text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_owner name;
    v_queues text[] := '{}';
    t record;
BEGIN
    SELECT pg_get_userbyid(c.relowner) INTO v_owner FROM pg_class c WHERE c.oid = target;
    IF v_owner IS NOT NULL AND NOT pg_has_role(current_user, v_owner, 'USAGE') THEN
        RAISE EXCEPTION '% may not detach %: it belongs to %', current_user, target, v_owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', v_owner, current_user);
    END IF;
    FOR t IN SELECT s.trigger_name, s.function_oid, s.queue FROM belfry.attachment_triggers(target, queue) AS s LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.trigger_name, target);
        IF t.function_oid IS NOT NULL THEN
            EXECUTE format('DROP FUNCTION %s', t.function_oid);
        END IF;
        v_queues := v_queues || t.queue;
    END LOOP;
    RETURN QUERY
        SELECT k.queue FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue)
        UNION
        SELECT s.queue FROM unnest(v_queues) AS s(queue)
        ORDER BY 1;
    DELETE FROM belfry.attachment_failure f WHERE f.target = target AND f.queue = coalesce(queue, f.queue);
    DELETE FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue);
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
        SELECT 'belfry.partition_of(' || string_agg(format('%s.%I::text', v_side, c), ', ' ORDER BY ord) || ')'
          INTO v_lane FROM unnest(p_key) WITH ORDINALITY AS k(c, ord);
    END IF;
    v_payload := format('''op'', %L, ''table'', belfry_attachment.source, ''row'', %s', p_event, format(v_row, v_side, 'json'));
    v_pairs := p_event = 'update' AND (p_payload = 'changes' OR p_condition IS NOT NULL);
    v_from := CASE
        -- Both hold the rows in the order in which they were updated, and a row that was
        -- swallowed on its way to another partition is in the old ones alone: then the
        -- nth of one is not that of the other, and nothing is paired. A plan is kept that
        -- was made for as few rows as the first statement had. With a full join, which
        -- OFFSET 0 keeps one, it cannot be n * n steps for n rows.
        WHEN v_pairs THEN format($t$
      FROM (SELECT n.nth, n.one AS new_one, o.one AS old_one
              FROM (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM belfry_new AS %1$s) AS n
              FULL JOIN (SELECT CASE WHEN belfry_attachment.paired THEN pg_catalog.row_number() OVER () END AS nth, %1$s AS one
                           FROM belfry_old AS %1$s) AS o ON o.nth = n.nth
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
