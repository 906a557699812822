-- A session that listens and stays in one transaction keeps all notifications of the
-- cluster from then on, and when there is no room for more (8 GB, or
-- max_notify_queue_pages) Postgres fails each transaction that notifies, at its COMMIT.
-- Those of producers, of attached tables and of consumers in SQL leave the notification
-- out before that: their rows are found by a look, as with belfry.notify = off.
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

SELECT pg_temp.rewrite('belfry.inbox_notify()',
    $r$    PERFORM pg_catalog.pg_notify('belfry_inbox', '');
$r$,
    $r$    -- A notification too much fails the transaction.
    IF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.97 THEN
        PERFORM pg_catalog.pg_notify('belfry_inbox', '');
    END IF;
$r$);
SELECT pg_temp.rewrite('belfry.tell_ready(bigint, bigint)',
    $r$IN ('off', 'false', 'no', '0') THEN$r$,
    $r$IN ('off', 'false', 'no', '0')
       OR pg_notification_queue_usage() >= 0.97 THEN -- one too much fails the transaction$r$);
