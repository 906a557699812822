-- Counts outcomes for the breakers of their groups, and opens or closes the breakers. Returns the groups whose breaker changed
-- or whose probe ended: their waiting requests must ask again after the commit. Groups without a breaker are ignored.
--
--   1. While a breaker is open, only its probe counts. A completed message of the probe closes the breaker. If
--      no message of the call is completed, a failure opens it again, with a longer pause.
--   2. While it is closed, belfry.count_part counts, and a failure is judged: the breaker opens after
--      breaker_failures failures in a row, or if the share of failures in the last breaker_window is
--      breaker_share, with at least breaker_minimum outcomes.
--   3. A consumer that asks for a pause opens the breaker in both cases.
--
-- Several outcomes of one call count in the order of p_outcomes. So a failure that comes before a completed message of the same
-- call is not in the run.
--
-- The call waits for no other session for more than 50 ms. Transactions that count at the same time do not see each other's
-- failures; the next failure sees them.
CREATE FUNCTION belfry.count_outcomes(p_outcomes belfry.outcome[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    l record;
    o belfry.outcome;
    b belfry.breaker;
    v_at timestamptz := clock_timestamp();
    v_opened_at timestamptz;
    v_changed boolean;
    v_probe boolean; -- an outcome is of the probe
    v_completed bigint;
    v_failed bigint;
    v_run bigint;
    v_pause bigint;
    v_error text;
    v_judged record;
BEGIN
    FOR l IN
        SELECT g.group_id, c.*
          FROM (SELECT DISTINCT u.group_id, u.limits_id FROM unnest(p_outcomes) AS u) AS g
          JOIN belfry.group_limit c ON c.id = g.limits_id
         WHERE belfry.has_breaker(g.limits_id)
         ORDER BY g.group_id
    LOOP
        SELECT k.* INTO b FROM belfry.breaker k WHERE k.group_id = l.group_id AND k.opened_at IS NOT NULL;
        v_changed := false;
        v_probe := false;
        v_opened_at := v_at;
        v_completed := 0;
        v_failed := 0;
        v_run := 0;
        v_pause := NULL;
        v_error := NULL;
        FOREACH o IN ARRAY p_outcomes LOOP
            CONTINUE WHEN o.group_id <> l.group_id;
            IF b.opened_at IS NOT NULL AND o.lease_id = b.probe_lease AND o.partition_id = b.probe_partition THEN
                v_changed := true;
                v_probe := true;
                IF o.completed > 0 THEN
                    IF NOT belfry.lock_breaker(l.group_id) THEN
                        CONTINUE;
                    END IF;
                    PERFORM belfry.reset_breaker(l.group_id);
                    PERFORM belfry.audit_breaker(l.group_id, 'breaker.close', '{"by":"probe"}');
                    b := NULL;
                ELSIF o.failed > 0 AND o.pause IS NULL THEN
                    v_opened_at := coalesce(o.ended_at, v_at);
                    PERFORM belfry.set_breaker(l.group_id, v_opened_at,
                        v_opened_at + belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, b.openings + 1), b.openings + 1, false, 'probe',
                        'the probe failed' || coalesce(': ' || left(o.error, 200), ''));
                END IF;
            END IF;
            v_pause := greatest(v_pause, o.pause);
            v_error := coalesce(o.error, v_error);
            v_opened_at := coalesce(o.ended_at, v_opened_at);
            v_completed := v_completed + o.completed;
            v_failed := v_failed + o.failed;
            v_run := CASE WHEN o.completed > 0 THEN o.run ELSE v_run + o.run END;
        END LOOP;
        IF v_pause IS NOT NULL THEN
            v_changed := belfry.set_breaker(l.group_id, v_at, v_at + v_pause * interval '1 millisecond',
                CASE WHEN b.opened_at IS NULL THEN 1 ELSE b.openings + v_probe::integer END, NOT v_probe, 'client',
                'a consumer asked for a pause' || coalesce(': ' || left(v_error, 200), '')) OR v_changed;
        ELSIF b.opened_at IS NULL AND (l.breaker_share IS NOT NULL OR l.breaker_failures IS NOT NULL)
            AND belfry.count_part(l.group_id, coalesce(l.breaker_window, interval '1 minute'), v_completed, v_failed, v_run, v_at,
                                  l.breaker_share IS NULL)
            AND v_failed > 0
        THEN
            v_judged := belfry.judge_count(l.group_id, coalesce(l.breaker_window, interval '1 minute'), v_at);
            IF v_judged.run >= l.breaker_failures
                OR v_judged.completed + v_judged.failed >= coalesce(l.breaker_minimum, 10)
                    AND v_judged.failed >= l.breaker_share * (v_judged.completed + v_judged.failed)
            THEN
                v_changed := belfry.set_breaker(l.group_id, v_opened_at, v_opened_at + belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, 1), 1, false,
                    CASE WHEN v_judged.run >= l.breaker_failures THEN 'failures' ELSE 'share' END,
                    CASE WHEN v_judged.run >= l.breaker_failures THEN v_judged.run || ' failures in a row'
                         ELSE round(v_judged.failed::numeric) || ' failures among ' || round((v_judged.completed + v_judged.failed)::numeric)
                              || ' outcomes in the last ' || coalesce(l.breaker_window, interval '1 minute') END
                        || coalesce(': ' || left(v_error, 200), '')) OR v_changed;
            END IF;
        END IF;
        IF v_changed THEN
            RETURN NEXT l.group_id;
        END IF;
    END LOOP;
END $$;
