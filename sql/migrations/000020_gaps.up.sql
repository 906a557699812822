-- A redriven message that failed rests, as one of the log does (retryDelay); what
-- an autoAck pop consumed can be taken back with the failures behind it; a sweep
-- counts what it moved groups past.

-- Not delivered before this instant; a failed ack set it. What was redriven comes
-- in the order of the log among itself, so those behind it wait as well. The log,
-- in whose order they have no place any more, does not.
ALTER TABLE belfry.redrive ADD COLUMN retry_at timestamptz;

-- When the redriven messages of a cursor are ready: the first of them decides.
CREATE FUNCTION belfry.redrives_at(p_partition bigint, p_group bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(statement_timestamp(), (
        SELECT r.retry_at FROM belfry.redrive r
         WHERE r.partition_id = p_partition AND r.group_id = p_group
         ORDER BY r.seq
         LIMIT 1))
$$;

-- THE rule of ready_at (migration 000005), where messages may have been redriven:
-- the earlier of theirs and of the log's. It looks at their rows, so those are
-- written in a statement before.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean, retry_at timestamptz, redrives integer, group_id bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT $8 THEN least(
        CASE WHEN $10 > 0 THEN belfry.redrives_at($1, $11) END,
        belfry.ready_at($1, $2, $3, $4, $5, $6, $7, false, $9, NULL)) END
$$;

-- Whether a cursor says that nothing of the log is ready although there may be: it
-- is asleep, or it waits for the end of its redriven messages' rest alone.
CREATE FUNCTION belfry.owes_wake(ready_at timestamptz, committed bigint, last_seq bigint, redrives integer, lease_id uuid)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN $1 IS NULL THEN $2 < $3 OR coalesce($4, 0) > 0
                ELSE coalesce($4, 0) > 0 AND $2 < $3 AND $1 > statement_timestamp() AND $5 IS NULL END
$$;

-- How long a message rests after so many failures: twice as long after each, up to
-- an hour, a fifth more or less, as pkg/store does.
CREATE FUNCTION belfry.rest(p_backoff_ms bigint, p_failures integer) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(p_backoff_ms * power(2, least(p_failures - 1, 40)), greatest(3600000, p_backoff_ms))
           * (0.8 + 0.4 * random()) * interval '1 millisecond'
$$;

-- Messages that stayed for a lease or a dead letter of another group, and that a
-- group was moved past unread, once for each group.
ALTER TABLE belfry.queue_sweep ADD COLUMN skipped bigint NOT NULL DEFAULT 0;

-- What follows is written into the newest form of each function; one whose result
-- changes is dropped first.
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

-- It stops at the first one that rests. When that is the very first it returns
-- no row, and the claim goes on with the log.
SELECT pg_temp.rewrite('belfry.redeliver(bigint, bigint, bigint, uuid, interval, timestamptz)',
    $r$    v_left integer;
$r$,
    $r$    v_left integer;
    v_rests bigint;
$r$,
    $r$        SELECT d.seq, d.attempts, d.deliveries
          FROM belfry.redrive d
$r$,
    $r$        SELECT d.seq, d.attempts, d.deliveries, d.retry_at
          FROM belfry.redrive d
$r$,
    $r$        IF one.deliveries >= v_most THEN
$r$,
    $r$        IF one.retry_at > p_now THEN
            v_rests := one.seq;
            EXIT;
        ELSIF one.deliveries >= v_most THEN
$r$,
    $r$AND (v_last IS NULL OR d.seq < v_last)
$r$,
    $r$AND coalesce(d.seq < coalesce(v_last, v_rests), true)
$r$,
    $r$    GET DIAGNOSTICS v_settled = ROW_COUNT;
$r$,
    $r$    GET DIAGNOSTICS v_settled = ROW_COUNT;
    IF v_last IS NULL AND v_rests IS NOT NULL THEN
        IF v_settled > 0 THEN
            UPDATE belfry.cursor c SET redrives = c.redrives - v_settled WHERE c.partition_id = p_partition AND c.group_id = p_group;
        END IF;
        RETURN;
    END IF;
$r$,
    $r$c.retry_at, v_left)
$r$,
    $r$c.retry_at, v_left, p_group)
$r$);

-- Behind redriven messages that rest it goes on with the log; was_due of such a
-- partition's row says so, since a wake must follow where nothing is taken or
-- consumed. The 'leased' row of an autoAck has, as payload, the failures and
-- attempts that unconsume.sql restores. Nothing of the log comes before the start
-- of the group (start_at), whatever is due.
SELECT pg_temp.rewrite('belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean)',
    $r$    v_hidden_from bigint;
$r$,
    $r$    v_hidden_from bigint;
    v_rest timestamptz;
$r$,
    $r$a.skip, a.redrives, a.retry_at
$r$,
    $r$a.skip, a.redrives, a.retry_at, a.failures, a.attempts, a.start_at
$r$,
    $r$o.skip, o.redrives, o.retry_at
$r$,
    $r$o.skip, o.redrives, o.retry_at, o.failures, o.attempts, o.start_at
$r$,
    $r$c.skip, c.redrives, c.retry_at
$r$,
    $r$c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at
$r$,
    $r$        v_moved := false;
$r$,
    $r$        v_moved := false;
        v_rest := NULL;
$r$,
    $r$            SELECT r.kind, r.partition_id, NULL::boolean, NULL::boolean, r.ready_at,$r$,
    $r$            SELECT r.kind, r.partition_id, NULL::boolean, r.ready_at > v_now, r.ready_at,$r$,
    $r$            v_moved := true;
        END IF;
        partition_id := k.partition_id;
$r$,
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
    $r$                k.skip := aside.skip;
$r$,
    $r$                k.skip := aside.skip;
                k.failures := 0;
                k.attempts := 0;
$r$,
    $r$        ready_at := f.ready_at;
$r$,
    $r$        ready_at := least(f.ready_at, v_rest);
$r$,
    $r$               SET ready_at = f.ready_at, lease_id = NULL,$r$,
    $r$               SET ready_at = least(f.ready_at, v_rest), lease_id = NULL,$r$,
    $r$                   ready_at = belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, f.paused, NULL, NULL),
$r$,
    $r$                   ready_at = least(v_rest, belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                                            f.delayed_processing, f.window_buffer, f.paused, NULL, NULL)),
$r$,
    $r$        kind := 'leased';
        RETURN NEXT;
$r$,
    $r$        kind := 'leased';
        payload := CASE WHEN p_lease IS NULL AND (k.failures > 0 OR k.attempts > 0)
            THEN json_build_object('failures', k.failures, 'attempts', k.attempts) END;
        RETURN NEXT;
$r$);

-- It wakes those that wait for a rest as well, where that makes them ready
-- earlier.
SELECT pg_temp.rewrite('belfry.wake_partitions(bigint[])',
    $r$SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, k.group_id,$r$,
    $r$SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id, k.group_id,$r$,
    $r$                        SELECT c.ready_at, c.committed, c.redrives FROM belfry.cursor c
$r$,
    $r$                        SELECT c.ready_at, c.committed, c.redrives, c.lease_id FROM belfry.cursor c
$r$,
    $r$AND c.ready_at IS NULL AND (c.committed < p.last_seq OR c.redrives > 0)
$r$,
    $r$AND belfry.owes_wake(c.ready_at, c.committed, p.last_seq, c.redrives, c.lease_id)
$r$,
    $r$                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at FROM belfry.cursor c
$r$,
    $r$                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id FROM belfry.cursor c
$r$,
    $r$        CONTINUE WHEN h.ready_at IS NOT NULL OR NOT (h.committed < h.last_seq OR coalesce(h.redrives, 0) > 0);
$r$,
    $r$        CONTINUE WHEN NOT belfry.owes_wake(h.ready_at, h.committed, h.last_seq, h.redrives, h.lease_id);
$r$,
    $r$h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives),
$r$,
    $r$h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives, h.group_id),
$r$);

-- The rest of redriven messages holds.
SELECT pg_temp.rewrite('belfry.delete_message(bigint, text)',
    $r$(c.redrives - least(v_redriven, 1))::integer)
$r$,
    $r$(c.redrives - least(v_redriven, 1))::integer, k.group_id)
$r$);

-- As above.
SELECT pg_temp.rewrite('belfry.seek_cursors(bigint[], bigint, timestamptz)',
    $r$f.paused, NULL, k.redrives)
$r$,
    $r$f.paused, NULL, k.redrives, p_group)
$r$);

-- As above, and nothing of the log is ready before the group's start.
SELECT pg_temp.rewrite('belfry.move_cursors(bigint, bigint, timestamptz)',
    $r$THEN belfry.ready_at(p_partition, p_upto, p.last_seq, p.last_push_at,$r$,
    $r$THEN belfry.ready_at(p_partition, p_upto, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END, p.last_push_at,$r$,
    $r$NULL, c.redrives) END
$r$,
    $r$NULL, c.redrives, c.group_id) END
$r$);

-- A cursor that would wait for a rest alone is due instead, as one that would
-- sleep: no wake can follow.
SELECT pg_temp.rewrite('belfry.ack_log(bigint, bigint, uuid[], text, text)',
    $r$               THEN coalesce(belfry.ready_at(p_partition, v_committed,$r$,
    $r$               THEN coalesce(CASE WHEN v_committed < f.last_seq THEN belfry.ready_at(p_partition, v_committed,$r$,
    $r$v_retry_at, c.redrives), clock_timestamp())
$r$,
    $r$v_retry_at, c.redrives, p_group) END, clock_timestamp())
$r$,
    $r$    v_rest interval;
    v_retry_at timestamptz;
$r$,
    $r$    v_retry_at timestamptz;
$r$,
    $r$            -- Twice as long after each, up to an hour, a fifth more or less.
            v_rest := least(f.retry_backoff_ms * power(2, least(v_failures - 1, 40)), greatest(3600000, f.retry_backoff_ms))
                * (0.8 + 0.4 * random()) * interval '1 millisecond';
            v_retry_at := clock_timestamp() + v_rest;
$r$,
    $r$            v_retry_at := clock_timestamp() + belfry.rest(f.retry_backoff_ms, v_failures);
$r$);

-- As above, and what failed rests.
SELECT pg_temp.rewrite('belfry.ack_redelivery(bigint, bigint, uuid[], text, text)',
    $r$q.window_buffer, q.retry_limit,
           q.paused$r$,
    $r$q.window_buffer, q.retry_limit,
           q.retry_backoff_ms, q.paused$r$,
    $r$               SET failures = d.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END
$r$,
    $r$               SET failures = d.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END,
                   retry_at = CASE WHEN p_status = 'failed' AND f.retry_backoff_ms > 0
                       THEN clock_timestamp() + belfry.rest(f.retry_backoff_ms, d.failures + 1) END
$r$,
    $r$               THEN coalesce(belfry.ready_at(p_partition, c.committed,$r$,
    $r$               THEN coalesce(CASE WHEN c.committed < f.last_seq THEN belfry.ready_at(p_partition, c.committed,$r$,
    $r$(c.redrives - v_settled)::integer), clock_timestamp())
$r$,
    $r$(c.redrives - v_settled)::integer, p_group) END, clock_timestamp())
$r$);

-- A redriven message that rests is nothing to look for either; the wake behind it
-- finds the end of the rest.
SELECT pg_temp.rewrite('belfry.settle_told(bigint[], bigint[])',
    $r$AND c.redrives IS NULL
$r$,
    $r$AND CASE WHEN c.redrives > 0 THEN belfry.redrives_at(c.partition_id, c.group_id) > statement_timestamp() ELSE true END
$r$);

-- As above, and it keeps that redriven messages were given up (maxDeliveries), as it
-- keeps that those of the log were.
SELECT pg_temp.rewrite('belfry.pop(text, text, integer, text, integer)',
    $r$                    v_kept := true;
                WHEN 'message' THEN
$r$,
    $r$                    v_kept := true;
                WHEN 'moved' THEN
                    v_kept := v_kept OR r.seq IS NOT NULL;
                WHEN 'message' THEN
$r$,
    $r$                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group AND c.ready_at IS NULL;
$r$,
    $r$                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group
                   AND (c.ready_at IS NULL OR c.redrives > 0 AND c.lease_id IS NULL);
$r$);

-- It counts what stays and a group is moved past unread, before it moves them.
SELECT pg_temp.rewrite('belfry.trim(bigint, bigint, boolean, bigint, bigint)',
    $r$RETURNS TABLE(retention bigint,$r$,
    $r$RETURNS TABLE(skipped bigint, retention bigint,$r$,
    $r$expired := 0; unread := 0;
$r$,
    $r$expired := 0; unread := 0; skipped := 0;
$r$,
    $r$        IF rule.name <> 'completed' THEN
            FOR moved IN$r$,
    $r$        IF rule.name <> 'completed' THEN
            IF rule.name <> 'expired' AND v_free < v_upto AND (v_held IS NOT NULL OR v_kept <> '{}') THEN
                SELECT skipped + count(*) INTO skipped
                  FROM belfry.cursor c
                  JOIN belfry.message m ON m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto
                 WHERE c.partition_id = p_partition AND coalesce(c.lease_until <= v_now, true)
                   AND (c.skip IS NULL OR m.seq <> ALL (c.skip));
            END IF;
            FOR moved IN$r$,
    $r$    IF v_gone > 0 OR expired > 0 THEN
$r$,
    $r$    IF v_gone > 0 OR expired > 0 OR skipped > 0 THEN
$r$,
    $r$(queue_id, retention, completed, evicted, unread, expired)
        VALUES (p_queue, retention, completed, evicted, unread, expired)
$r$,
    $r$(queue_id, retention, completed, evicted, unread, expired, skipped)
        VALUES (p_queue, retention, completed, evicted, unread, expired, skipped)
$r$,
    $r$               expired = t.expired + excluded.expired;
$r$,
    $r$               expired = t.expired + excluded.expired, skipped = t.skipped + excluded.skipped;
$r$);
