-- Belfry reads all texts as UTF-8. In a database with encoding SQL_ASCII a text may be any
-- bytes, and other encodings have letters that Unicode lacks; Postgres hands out no result
-- that holds such a one. So none is taken where it would be listed with others, and
-- the sequencer finds those that producers insert.
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

-- Whether a text can be read as UTF-8. It costs a savepoint.
CREATE FUNCTION belfry.readable(p_text text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_text, 'UTF8');
    RETURN true;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN false;
END $$;

-- Here the error of Postgres says enough.
SELECT pg_temp.rewrite('belfry.check_names(text, text)',
    $r$BEGIN
$r$,
    $r$BEGIN
    PERFORM pg_catalog.convert_to(p_queue, 'UTF8'), pg_catalog.convert_to(p_group, 'UTF8');
$r$);

SELECT pg_temp.rewrite('belfry.ack(uuid, uuid[], text, text)',
    $r$    -- There is one: belfry.pop gives$r$,
    $r$    PERFORM convert_to(error, 'UTF8'); -- it is listed with those of others
    -- There is one: belfry.pop gives$r$);

SELECT pg_temp.rewrite('belfry.attachment_failed(regclass, text, text, text, text)',
    $r$    SELECT p_target, p_queue, p_event, p_code, p_message
$r$,
    $r$    SELECT p_target, p_queue, p_event, p_code, CASE WHEN belfry.readable(p_message) THEN p_message ELSE 'an error that cannot be read as UTF-8' END
$r$);

SELECT pg_temp.rewrite('belfry.attach_sql(regclass, text, text[], text[], text, text, text[], boolean)',
    $r$    -- In an order of their own,$r$,
    $r$    PERFORM convert_to(queue, 'UTF8'), convert_to(condition, 'UTF8');
    -- In an order of their own,$r$);
