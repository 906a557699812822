-- Returns the text of the function that runs after each statement that causes p_event. The function runs
-- with the rights of the table's owner. So every name in the text has its schema. Only a condition
-- and headers are evaluated with the table's schema in the search path.
CREATE FUNCTION belfry.attachment_function(
    p_target regclass, p_name text, p_event text, p_queue text, p_key text[], p_condition text, p_payload text, p_columns text[],
    p_strict boolean, p_headers text
) RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_side text := CASE WHEN p_event = 'delete' THEN 'old' ELSE 'new' END;
    v_columns text;
    -- A name that no column of the table has.
    v_one text := 'belfry_row';
    -- The arguments of this format: old or new, and json or jsonb. new.* is the row, also if a column
    -- has the name new.
    v_row text := 'pg_catalog.to_%2$s(%1$s.*)';
    v_lane text := quote_literal('Default');
    v_from text;
    v_payload text;
    v_where text[];
    v_pairs boolean;
    v_insert text;
    v_body text;
    v_tag text := 'belfry';
    -- If the table has virtual columns, the function builds its statement at run time from the text
    -- between these quotes. The text cannot contain the quotes.
    v_computed boolean := EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = p_target AND a.attgenerated = 'v');
    v_quote text := 'belfry_text';
    v_old text := 'belfry_old';
    v_new text := 'belfry_new';
    v_source text := 'belfry_attachment.source';
    v_paired text := 'belfry_attachment.paired';
BEGIN
    IF v_computed THEN
        WHILE position(v_quote IN (SELECT concat_ws(' ', p_queue, p_condition, p_headers, string_agg(a.attname, ' ')) FROM pg_attribute a WHERE a.attrelid = p_target)) > 0 LOOP
            v_quote := v_quote || '_';
        END LOOP;
        v_quote := '$' || v_quote || '$';
        v_old := v_quote || ' || belfry.transition_rows(TG_RELID, ''belfry_old'') || ' || v_quote;
        v_new := v_quote || ' || belfry.transition_rows(TG_RELID, ''belfry_new'') || ' || v_quote;
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
    v_pairs := p_event = 'update' AND (p_payload = 'changes' OR p_condition IS NOT NULL OR p_headers IS NOT NULL);
    v_from := CASE
        -- Pairs old and new rows by their position: both transition tables have the order of the update.
        -- An update may move a row to another partition, and a trigger may drop the row there. Then the
        -- numbers of rows differ, and no rows are paired. A FULL JOIN, which OFFSET 0 keeps, never
        -- becomes a nested loop of n * n steps, even in a plan made for a small statement. The inner
        -- SELECT * removes dropped columns, which would shift the columns of (new_one).*.
        WHEN v_pairs THEN format($t$
      FROM (SELECT n.nth, n.one AS new_one, o.one AS old_one
              FROM (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM (SELECT * FROM %2$s AS r) AS %1$s) AS n
              FULL JOIN (SELECT CASE WHEN %4$s THEN pg_catalog.row_number() OVER () END AS nth, %1$s AS one
                           FROM (SELECT * FROM %3$s AS r) AS %1$s) AS o ON o.nth = n.nth
            OFFSET 0) AS pair
     CROSS JOIN LATERAL (SELECT (pair.new_one).*) AS new
     CROSS JOIN LATERAL (SELECT (pair.old_one).*) AS old$t$, v_one, v_new, v_old, v_paired)
        -- The text does not contain the name of the table, because the name may change.
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
        -- If the old row is unknown, the condition cannot exclude the new row.
        v_where := v_where || format(CASE WHEN v_pairs
            THEN E'COALESCE((%s\n           ), NOT %s)' ELSE E'(%s\n           )' END, p_condition, v_paired);
    END IF;
    v_insert := format($t$INSERT INTO belfry.inbox (queue, partition, payload%s)
    SELECT %L, %s, pg_catalog.json_build_object(%s)%s%s%s%s$t$, CASE WHEN p_headers IS NULL THEN '' ELSE ', headers' END, p_queue, v_lane, v_payload,
        CASE WHEN p_headers IS NULL THEN '' ELSE format(E',\n           belfry.check_headers((%s\n           )::pg_catalog.json)', p_headers) END, v_from,
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
        CASE WHEN p_condition IS NULL AND p_headers IS NULL THEN '' ELSE
            (SELECT format('%I, ', n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_target) END,
        CASE WHEN p_condition IS NULL AND p_headers IS NULL THEN '' ELSE ' SET standard_conforming_strings = on' END,
        v_tag, v_body);
END $$;
