-- The function as it was.
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

SELECT pg_temp.rewrite('belfry.wake_partitions(bigint[])',
    $r$        IF h.ready_at IS NOT NULL AND h.start_at IS NULL THEN
            CONTINUE WHEN h.ready_at = belfry.ready_at(h.partition_id, h.committed, h.last_seq, h.last_push_at, h.visible_until,
                                                       h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives, h.group_id);
        END IF;
$r$, '');
