DROP FUNCTION belfry.settle_told(bigint[], bigint[]);
DROP FUNCTION belfry.extend(uuid, bigint);
DROP FUNCTION belfry.ack_redelivery(bigint, bigint, uuid[], text, text);
DROP FUNCTION belfry.ack_log(bigint, bigint, uuid[], text, text);
DROP FUNCTION belfry.ack(uuid, uuid[], text, text);
DROP FUNCTION belfry.raise_lease_lost(uuid);
DROP FUNCTION belfry.raise_sealed(text);
DROP FUNCTION belfry.pop(text, text, integer, text, integer);
DROP FUNCTION belfry.subscribe(text, text, text, timestamptz);
DROP FUNCTION belfry.check_names(text, text);
DROP FUNCTION belfry.join_in_transaction(text, text, text, text, timestamptz);
DROP FUNCTION belfry.tell_ready(bigint, bigint);
DO $$
DECLARE
    v_function regprocedure;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean)',
        'belfry.redeliver(bigint, bigint, bigint, uuid, interval)']::regprocedure[]
    LOOP
        EXECUTE replace(pg_get_functiondef(v_function),
                        'v_now timestamptz := clock_timestamp();', 'v_now timestamptz := statement_timestamp();');
    END LOOP;
END $$;
