CREATE OR REPLACE FUNCTION pg_temp.rewrite(p_function regprocedure, p_what text, p_instead text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(pg_get_functiondef(p_function), p_what, p_instead);
END $$;

SELECT pg_temp.rewrite('belfry.check_names(text, text)',
    $r$    PERFORM pg_catalog.convert_to(p_queue, 'UTF8'), pg_catalog.convert_to(p_group, 'UTF8');
$r$, '');

SELECT pg_temp.rewrite('belfry.ack(uuid, uuid[], text, text)',
    $r$    PERFORM convert_to(error, 'UTF8'); -- it is listed with those of others
$r$, '');

SELECT pg_temp.rewrite('belfry.attachment_failed(regclass, text, text, text, text)',
    $r$CASE WHEN belfry.readable(p_message) THEN p_message ELSE 'an error that cannot be read as UTF-8' END$r$, 'p_message');

SELECT pg_temp.rewrite('belfry.attach_sql(regclass, text, text[], text[], text, text, text[], boolean)',
    $r$    PERFORM convert_to(queue, 'UTF8'), convert_to(condition, 'UTF8');
$r$, '');

DROP FUNCTION belfry.readable(text);
