-- A wake, and with it a heal, wrote, returned and announced anew, with the same
-- ready_at, each cursor that waits for the end of a redriven message's rest or for
-- the head of its log, as often as it looked. It leaves those as they are now: it has locked
-- and judged them, and would write what they say.
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

-- A group that has not started yet is always changed: its cursor moves to the start.
SELECT pg_temp.rewrite('belfry.wake_partitions(bigint[])',
    $r$        CONTINUE WHEN NOT belfry.owes_wake(h.ready_at, h.committed, h.last_seq, h.redrives, h.lease_id);
$r$,
    $r$        CONTINUE WHEN NOT belfry.owes_wake(h.ready_at, h.committed, h.last_seq, h.redrives, h.lease_id);
        IF h.ready_at IS NOT NULL AND h.start_at IS NULL THEN
            CONTINUE WHEN h.ready_at = belfry.ready_at(h.partition_id, h.committed, h.last_seq, h.last_push_at, h.visible_until,
                                                       h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives, h.group_id);
        END IF;
$r$);
