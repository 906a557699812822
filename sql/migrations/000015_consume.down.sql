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
BEGIN
    EXECUTE replace(replace(pg_get_functiondef('belfry.redeliver(bigint, bigint, bigint, uuid, interval, timestamptz)'::regprocedure),
                            'p_lease_time interval, p_now timestamp with time zone)', 'p_lease_time interval)'),
                    'v_now timestamptz := p_now;', 'v_now timestamptz := statement_timestamp();');
    EXECUTE replace(replace(pg_get_functiondef(
                                'belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean)'::regprocedure),
                            'f.lease_time, v_now) AS r;', 'f.lease_time) AS r;'),
                    'v_now timestamptz := clock_timestamp();', 'v_now timestamptz := statement_timestamp();');
END $$;
DROP FUNCTION belfry.redeliver(bigint, bigint, bigint, uuid, interval, timestamptz);
