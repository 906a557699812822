-- The functions as they were, in the reverse order.
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
    IF strpos(p_pairs[1], 'RETURNS') = 1 THEN
        EXECUTE format('DROP FUNCTION %s', p_function);
    END IF;
    EXECUTE v_text;
END $$;

SELECT pg_temp.rewrite('belfry.trim(bigint, bigint, boolean, bigint, bigint)',
    $r$RETURNS TABLE(skipped bigint, retention bigint,$r$,
    $r$RETURNS TABLE(retention bigint,$r$,
    $r$expired := 0; unread := 0; skipped := 0;
$r$,
    $r$expired := 0; unread := 0;
$r$,
    $r$        IF rule.name <> 'completed' THEN
            IF rule.name <> 'expired' AND v_free < v_upto AND (v_held IS NOT NULL OR v_kept <> '{}') THEN
                SELECT skipped + count(*) INTO skipped
                  FROM belfry.cursor c
                  JOIN belfry.message m ON m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto
                 WHERE c.partition_id = p_partition AND coalesce(c.lease_until <= v_now, true)
                   AND (c.skip IS NULL OR m.seq <> ALL (c.skip));
            END IF;
            FOR moved IN$r$,
    $r$        IF rule.name <> 'completed' THEN
            FOR moved IN$r$,
    $r$    IF v_gone > 0 OR expired > 0 OR skipped > 0 THEN
$r$,
    $r$    IF v_gone > 0 OR expired > 0 THEN
$r$,
    $r$(queue_id, retention, completed, evicted, unread, expired, skipped)
        VALUES (p_queue, retention, completed, evicted, unread, expired, skipped)
$r$,
    $r$(queue_id, retention, completed, evicted, unread, expired)
        VALUES (p_queue, retention, completed, evicted, unread, expired)
$r$,
    $r$               expired = t.expired + excluded.expired, skipped = t.skipped + excluded.skipped;
$r$,
    $r$               expired = t.expired + excluded.expired;
$r$);

SELECT pg_temp.rewrite('belfry.pop(text, text, integer, text, integer)',
    $r$                WHEN 'moved' THEN
                    v_kept := v_kept OR r.seq IS NOT NULL;
                WHEN 'message' THEN
$r$,
    $r$                WHEN 'message' THEN
$r$,
    $r$                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group
                   AND (c.ready_at IS NULL OR c.redrives > 0 AND c.lease_id IS NULL);
$r$,
    $r$                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group AND c.ready_at IS NULL;
$r$);

SELECT pg_temp.rewrite('belfry.settle_told(bigint[], bigint[])',
    $r$AND CASE WHEN c.redrives > 0 THEN belfry.redrives_at(c.partition_id, c.group_id) > statement_timestamp() ELSE true END
$r$,
    $r$AND c.redrives IS NULL
$r$);

SELECT pg_temp.rewrite('belfry.ack_redelivery(bigint, bigint, uuid[], text, text)',
    $r$q.window_buffer, q.retry_limit,
           q.retry_backoff_ms, q.paused$r$,
    $r$q.window_buffer, q.retry_limit,
           q.paused$r$,
    $r$               SET failures = d.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END,
                   retry_at = CASE WHEN p_status = 'failed' AND f.retry_backoff_ms > 0
                       THEN clock_timestamp() + belfry.rest(f.retry_backoff_ms, d.failures + 1) END
$r$,
    $r$               SET failures = d.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END
$r$,
    $r$               THEN coalesce(CASE WHEN c.committed < f.last_seq THEN belfry.ready_at(p_partition, c.committed,$r$,
    $r$               THEN coalesce(belfry.ready_at(p_partition, c.committed,$r$,
    $r$(c.redrives - v_settled)::integer, p_group) END, clock_timestamp())
$r$,
    $r$(c.redrives - v_settled)::integer), clock_timestamp())
$r$);

SELECT pg_temp.rewrite('belfry.ack_log(bigint, bigint, uuid[], text, text)',
    $r$               THEN coalesce(CASE WHEN v_committed < f.last_seq THEN belfry.ready_at(p_partition, v_committed,$r$,
    $r$               THEN coalesce(belfry.ready_at(p_partition, v_committed,$r$,
    $r$v_retry_at, c.redrives, p_group) END, clock_timestamp())
$r$,
    $r$v_retry_at, c.redrives), clock_timestamp())
$r$,
    $r$    v_retry_at timestamptz;
$r$,
    $r$    v_rest interval;
    v_retry_at timestamptz;
$r$,
    $r$            v_retry_at := clock_timestamp() + belfry.rest(f.retry_backoff_ms, v_failures);
$r$,
    $r$            -- Twice as long after each, up to an hour, a fifth more or less.
            v_rest := least(f.retry_backoff_ms * power(2, least(v_failures - 1, 40)), greatest(3600000, f.retry_backoff_ms))
                * (0.8 + 0.4 * random()) * interval '1 millisecond';
            v_retry_at := clock_timestamp() + v_rest;
$r$);

SELECT pg_temp.rewrite('belfry.move_cursors(bigint, bigint, timestamptz)',
    $r$THEN belfry.ready_at(p_partition, p_upto, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END, p.last_push_at,$r$,
    $r$THEN belfry.ready_at(p_partition, p_upto, p.last_seq, p.last_push_at,$r$,
    $r$NULL, c.redrives, c.group_id) END
$r$,
    $r$NULL, c.redrives) END
$r$);

SELECT pg_temp.rewrite('belfry.seek_cursors(bigint[], bigint, timestamptz)',
    $r$f.paused, NULL, k.redrives, p_group)
$r$,
    $r$f.paused, NULL, k.redrives)
$r$);

SELECT pg_temp.rewrite('belfry.delete_message(bigint, text)',
    $r$(c.redrives - least(v_redriven, 1))::integer, k.group_id)
$r$,
    $r$(c.redrives - least(v_redriven, 1))::integer)
$r$);

SELECT pg_temp.rewrite('belfry.wake_partitions(bigint[])',
    $r$SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id, k.group_id,$r$,
    $r$SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, k.group_id,$r$,
    $r$                        SELECT c.ready_at, c.committed, c.redrives, c.lease_id FROM belfry.cursor c
$r$,
    $r$                        SELECT c.ready_at, c.committed, c.redrives FROM belfry.cursor c
$r$,
    $r$AND belfry.owes_wake(c.ready_at, c.committed, p.last_seq, c.redrives, c.lease_id)
$r$,
    $r$AND c.ready_at IS NULL AND (c.committed < p.last_seq OR c.redrives > 0)
$r$,
    $r$                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id FROM belfry.cursor c
$r$,
    $r$                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at FROM belfry.cursor c
$r$,
    $r$        CONTINUE WHEN NOT belfry.owes_wake(h.ready_at, h.committed, h.last_seq, h.redrives, h.lease_id);
$r$,
    $r$        CONTINUE WHEN h.ready_at IS NOT NULL OR NOT (h.committed < h.last_seq OR coalesce(h.redrives, 0) > 0);
$r$,
    $r$h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives, h.group_id),
$r$,
    $r$h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives),
$r$);

SELECT pg_temp.rewrite('belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean)',
    $r$    v_hidden_from bigint;
    v_rest timestamptz;
$r$,
    $r$    v_hidden_from bigint;
$r$,
    $r$a.skip, a.redrives, a.retry_at, a.failures, a.attempts, a.start_at
$r$,
    $r$a.skip, a.redrives, a.retry_at
$r$,
    $r$o.skip, o.redrives, o.retry_at, o.failures, o.attempts, o.start_at
$r$,
    $r$o.skip, o.redrives, o.retry_at
$r$,
    $r$c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at
$r$,
    $r$c.skip, c.redrives, c.retry_at
$r$,
    $r$        v_moved := false;
        v_rest := NULL;
$r$,
    $r$        v_moved := false;
$r$,
    $r$            SELECT r.kind, r.partition_id, NULL::boolean, r.ready_at > v_now, r.ready_at,$r$,
    $r$            SELECT r.kind, r.partition_id, NULL::boolean, NULL::boolean, r.ready_at,$r$,
    $r$            v_moved := true;
            SELECT CASE WHEN c.redrives > 0 THEN belfry.redrives_at(c.partition_id, c.group_id) END INTO v_rest
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group;
        END IF;
        IF k.start_at IS NOT NULL THEN
            f.ready_at := NULL;
        END IF;
        partition_id := k.partition_id;
        was_due := v_rest IS NOT NULL;
$r$,
    $r$            v_moved := true;
        END IF;
        partition_id := k.partition_id;
$r$,
    $r$                k.skip := aside.skip;
                k.failures := 0;
                k.attempts := 0;
$r$,
    $r$                k.skip := aside.skip;
$r$,
    $r$        ready_at := least(f.ready_at, v_rest);
$r$,
    $r$        ready_at := f.ready_at;
$r$,
    $r$               SET ready_at = least(f.ready_at, v_rest), lease_id = NULL,$r$,
    $r$               SET ready_at = f.ready_at, lease_id = NULL,$r$,
    $r$                   ready_at = least(v_rest, belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                                            f.delayed_processing, f.window_buffer, f.paused, NULL, NULL)),
$r$,
    $r$                   ready_at = belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, f.paused, NULL, NULL),
$r$,
    $r$        kind := 'leased';
        payload := CASE WHEN p_lease IS NULL AND (k.failures > 0 OR k.attempts > 0)
            THEN json_build_object('failures', k.failures, 'attempts', k.attempts) END;
        RETURN NEXT;
$r$,
    $r$        kind := 'leased';
        RETURN NEXT;
$r$);

SELECT pg_temp.rewrite('belfry.redeliver(bigint, bigint, bigint, uuid, interval, timestamptz)',
    $r$    v_left integer;
    v_rests bigint;
$r$,
    $r$    v_left integer;
$r$,
    $r$        SELECT d.seq, d.attempts, d.deliveries, d.retry_at
          FROM belfry.redrive d
$r$,
    $r$        SELECT d.seq, d.attempts, d.deliveries
          FROM belfry.redrive d
$r$,
    $r$        IF one.retry_at > p_now THEN
            v_rests := one.seq;
            EXIT;
        ELSIF one.deliveries >= v_most THEN
$r$,
    $r$        IF one.deliveries >= v_most THEN
$r$,
    $r$AND coalesce(d.seq < coalesce(v_last, v_rests), true)
$r$,
    $r$AND (v_last IS NULL OR d.seq < v_last)
$r$,
    $r$    GET DIAGNOSTICS v_settled = ROW_COUNT;
    IF v_last IS NULL AND v_rests IS NOT NULL THEN
        IF v_settled > 0 THEN
            UPDATE belfry.cursor c SET redrives = c.redrives - v_settled WHERE c.partition_id = p_partition AND c.group_id = p_group;
        END IF;
        RETURN;
    END IF;
$r$,
    $r$    GET DIAGNOSTICS v_settled = ROW_COUNT;
$r$,
    $r$c.retry_at, v_left, p_group)
$r$,
    $r$c.retry_at, v_left)
$r$);

DROP FUNCTION belfry.rest(bigint, integer);
DROP FUNCTION belfry.owes_wake(timestamptz, bigint, bigint, integer, uuid);
DROP FUNCTION belfry.ready_at(bigint, bigint, bigint, timestamptz, timestamptz, bigint, bigint, boolean, timestamptz, integer, bigint);
DROP FUNCTION belfry.redrives_at(bigint, bigint);
ALTER TABLE belfry.redrive DROP COLUMN retry_at;
ALTER TABLE belfry.queue_sweep DROP COLUMN skipped;
