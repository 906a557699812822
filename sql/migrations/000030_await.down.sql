DROP FUNCTION belfry.await(text, text, text);

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

SELECT pg_temp.rewrite('belfry.settle_told(bigint[], bigint[])',
    $r$
            AND NOT EXISTS (
                SELECT 1 FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > c.committed
                   AND (c.skip IS NULL OR m.seq <> ALL (c.skip)))
            FOR NO KEY UPDATE OF c SKIP LOCKED;$r$,
    $r$
            FOR NO KEY UPDATE OF c SKIP LOCKED;$r$);
