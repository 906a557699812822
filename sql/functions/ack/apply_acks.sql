-- Applies acknowledgments: locks their cursors, judges the acks by the rules below, and writes the
-- changes. The HTTP API (store/ack_apply) and belfry.ack call this function.
--
--   By cursor:
--   p_partitions, p_partition_uids, p_groups  A partition whose uid differs counts as missing: after a
--                   restore, another partition can have the same id.
--   p_last_entries  The index of the last entry. A cursor without entries is only locked.
--   By entry, sorted by cursor, call and seq:
--   p_calls         The call, from 1. Each call is judged as if it had its own transaction.
--   p_seqs          The message. One entry with the last message is enough for the completed acks of
--                   one call and one lease, unless the lease delivered redriven messages.
--   p_leases        The zero UUID: the ack is not fenced.
--   p_statuses      0 no effect, 1 completed, 2 failed, 3 dlq, 4 retry
--   p_errors        UTF-8 texts for dead letters. An empty array: none.
--   p_pauses        For failed and retry: the milliseconds until the next delivery. NULL: the retry delay
--                   of the queue for failed, no delay for retry. An empty array: NULL for each.
--   p_patience      The lock_timeout from here on. NULL: unchanged.
--   p_sql_consumer  The caller is belfry.ack. No wake can follow its commit. So a drained cursor stays
--                   marked ready. The next pop settles the cursor, or a server does after the notification.
--   p_alone         The transaction has one cursor and locks nothing else; see hold_drained.
--   p_consumers     By entry: who sent a failed ack, for belfry.attempt. An empty array: unknown for each.
--   p_instance      The instance, for belfry.attempt.
--
-- The rules for the acks of one call and one cursor:
--
--   1. An ack is refused if its lease is not the live lease of the cursor.
--   2. completed moves the cursor forward to the message. Acks of finished messages succeed.
--   3. The first failed ack with retries left, or the first retry, stops the cursor and ends the
--      lease: its message and all later ones are redelivered. So completed acks of later messages
--      are refused. A failed ack counts a failure and starts the retry delay. If the acks of one call
--      give several pauses, the longest applies.
--   4. A failed ack without retries left, or dlq, makes a dead letter. The cursor skips the message,
--      but does not move past unfinished messages before it. With onExhausted = 'skip', a failed ack
--      without retries left makes no dead letter. With onExhausted = 'block', it stops the cursor like
--      rule 3 and blocks it. Until belfry.unblock, acks of unfinished messages are refused, except dlq.
--   5. The lease ends when the cursor reaches lease_end.
--   6. An ack of a redriven message settles only that message and does not move the cursor. A lease of
--      redriven messages ends when all of them are settled, or with the first failed ack or retry. A
--      redriven message without retries left is out of order already, so 'block' means a dead letter. An
--      ack without a lease is for the redriven message if the lease of the cursor delivered it, or if
--      the cursor had passed or skipped it before the call.
--
-- Locks the cursors in (partition, group) order, and reads the newest version of each row; see
-- sql/schema/partition.sql.
CREATE FUNCTION belfry.apply_acks(
    p_partitions bigint[], p_partition_uids uuid[], p_groups text[], p_last_entries integer[],
    p_calls integer[], p_seqs bigint[], p_leases uuid[], p_statuses smallint[], p_errors bytea[], p_pauses bigint[],
    p_patience text, p_sql_consumer boolean DEFAULT false, p_alone boolean DEFAULT false,
    p_consumers text[] DEFAULT NULL, p_instance text DEFAULT NULL
) RETURNS SETOF belfry.ack_row LANGUAGE plpgsql AS $$
DECLARE
    c_unfenced constant uuid := '00000000-0000-0000-0000-000000000000';
    c_completed constant smallint := 1;
    c_failed constant smallint := 2;
    c_dlq constant smallint := 3;
    v_patience text;
    k record;
    v_now timestamptz;
    v_changes belfry.ack_change[];
    v_tried belfry.attempt[]; -- the failed deliveries
    -- The state of the cursor.
    v_lease uuid; -- the live lease
    v_committed bigint;
    v_skip int8multirange;
    v_failures integer;
    v_attempts integer;
    v_retry_at timestamptz;
    -- The changes of all calls to the cursor.
    v_changed boolean;
    v_released boolean;
    v_ended_by integer;
    v_settled int8multirange; -- redriven messages
    v_settled_count integer;
    v_settled_of_lease integer;
    v_redeliver boolean; -- a redriven message failed
    -- The state of the current call.
    v_call integer;
    v_committed_before bigint;
    v_parked bigint[]; -- messages to skip from now on
    v_settling bigint[]; -- redriven messages that the call settles
    v_touched boolean; -- the call changes the cursor
    v_stopped boolean; -- rule 3 stopped the cursor
    v_failed boolean; -- the call has a failed ack that counts a failure
    v_blocked boolean; -- a failed ack without retries left has blocked the cursor
    v_exhausted text; -- what happens to a message without retries left
    v_pause bigint; -- the longest pause that an ack of the call gives
    -- The state of the current ack.
    v_status smallint;
    v_seq bigint;
    v_verdict smallint;
    v_redrive_failures integer;
    v_redelivered boolean; -- the lease delivered the redriven message; NULL: the message is not redriven
BEGIN
    v_patience := CASE WHEN p_patience IS NOT NULL THEN set_config('lock_timeout', p_patience, true) END;
    FOR k IN
        SELECT w.ord, w.retry_limit, w.retry_delay, w.retry_backoff, w.retry_delay_max, w.limits_id, c.*
          FROM (SELECT w.ord, w.partition_id, g.id AS group_id, g.limits_id, q.retry_limit, q.retry_delay, q.retry_backoff, q.retry_delay_max
                  FROM unnest(p_partitions, p_partition_uids, p_groups) WITH ORDINALITY AS w(partition_id, uid, group_name, ord)
                 CROSS JOIN LATERAL (
                        SELECT p.uid, p.queue_id FROM belfry.partition p
                         WHERE p.id >= w.partition_id AND p.id <= w.partition_id
                         ORDER BY p.id DESC LIMIT 1) AS p
                 CROSS JOIN LATERAL (
                        SELECT q.retry_limit, q.retry_delay, q.retry_backoff, q.retry_delay_max
                          FROM belfry.queue q WHERE q.id = p.queue_id AND (q.deleted_at IS NULL OR p_sql_consumer) OFFSET 0) AS q
                 CROSS JOIN LATERAL (SELECT g.id, g.limits_id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND g.name = w.group_name OFFSET 0) AS g
                 WHERE p.uid = w.uid
                 ORDER BY w.partition_id, g.id) AS w
         CROSS JOIN LATERAL (
                SELECT c.ctid, c.partition_id, c.group_id, c.committed, c.skip, c.failures, c.attempts, c.lease_id, c.lease_until,
                       coalesce(c.lease_end, 0) AS lease_end, coalesce(c.redrives, 0) AS redrives, c.retry_at
                  FROM belfry.cursor c
                 WHERE c.partition_id = w.partition_id AND c.group_id >= w.group_id AND c.group_id <= w.group_id
                 ORDER BY c.group_id DESC LIMIT 1
                   FOR NO KEY UPDATE) AS c
    LOOP
        v_now := clock_timestamp();
        v_lease := CASE WHEN k.lease_until > v_now THEN k.lease_id END;
        v_committed := k.committed;
        v_skip := k.skip + '{}'; -- + '{}' unpacks the stored value once, and not at each use
        v_failures := k.failures;
        v_attempts := k.attempts;
        v_retry_at := k.retry_at;
        v_blocked := k.retry_at = belfry.blocked();
        v_exhausted := CASE WHEN k.limits_id IS NULL THEN 'deadLetter' END;
        v_changed := false;
        v_released := false;
        v_ended_by := CASE WHEN v_lease IS NULL THEN 0 END;
        v_settled := '{}';
        v_settled_count := 0;
        v_settled_of_lease := 0;
        v_redeliver := false;
        v_call := 0;
        FOR i IN coalesce(p_last_entries[k.ord - 1], 0) + 1 .. coalesce(p_last_entries[k.ord], 0) LOOP
            -- A call begins.
            IF p_calls[i] <> v_call THEN
                v_call := p_calls[i];
                v_committed_before := v_committed;
                v_parked := NULL;
                v_settling := NULL;
                v_touched := false;
                v_stopped := false;
                v_failed := false;
                v_pause := NULL;
            END IF;

            -- Judge the ack.
            v_status := p_statuses[i];
            v_seq := p_seqs[i];
            v_verdict := CASE WHEN v_status = 0 THEN 3 END;
            v_redelivered := NULL;
            IF k.redrives > 0 THEN
                SELECT x.failures, coalesce(x.lease_id = k.lease_id, false) INTO v_redrive_failures, v_redelivered
                  FROM belfry.redrive x
                 WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
            END IF;
            IF p_leases[i] <> c_unfenced AND p_leases[i] IS DISTINCT FROM v_lease THEN
                v_verdict := 1; -- rule 1
            ELSIF v_status = 0 OR (v_seq <@ v_settled OR v_seq = v_settling[cardinality(v_settling)])
                AND (k.lease_end < 0 OR p_leases[i] = c_unfenced) THEN
                NULL; -- no effect, or settled before
            ELSIF v_redelivered OR v_redelivered IS NOT NULL AND p_leases[i] = c_unfenced
                AND (v_seq <= v_committed_before OR v_seq <@ v_skip) THEN
                -- A redriven message (rule 6).
                IF v_status IN (c_completed, c_dlq) OR v_status = c_failed AND v_redrive_failures >= k.retry_limit THEN
                    v_settling := array_append(v_settling, v_seq);
                    v_settled_of_lease := v_settled_of_lease + v_redelivered::integer;
                    DELETE FROM belfry.redrive x WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                    IF v_status = c_failed THEN
                        v_exhausted := coalesce(v_exhausted, belfry.on_exhausted(k.group_id));
                    END IF;
                    IF v_status = c_failed AND v_exhausted = 'skip' THEN
                        v_verdict := 7;
                    ELSIF v_status <> c_completed THEN
                        v_verdict := 4;
                        PERFORM belfry.park(k.partition_id, k.group_id, v_seq, v_redrive_failures + (v_status = c_failed)::integer, p_errors[i]);
                    END IF;
                ELSE
                    v_redeliver := true;
                    IF v_status = c_failed OR p_pauses[i] IS NOT NULL THEN
                        UPDATE belfry.redrive x
                           SET failures = x.failures + (v_status = c_failed)::integer,
                               retry_at = v_now + coalesce(p_pauses[i] * interval '1 millisecond',
                                   belfry.retry_delay(k.retry_delay, k.retry_backoff, k.retry_delay_max, x.failures + 1))
                         WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                    END IF;
                END IF;
            ELSIF k.lease_end < 0 AND p_leases[i] = v_lease THEN
                NULL; -- settled before
            ELSIF v_blocked AND NOT v_stopped AND v_status <> c_dlq AND v_seq > v_committed THEN
                v_verdict := 5; -- rule 4
            ELSIF v_status = c_dlq OR v_status = c_failed AND v_seq > v_committed AND NOT v_stopped AND v_failures >= k.retry_limit THEN
                -- Rule 4.
                v_touched := true;
                IF v_status = c_failed THEN
                    v_exhausted := coalesce(v_exhausted, belfry.on_exhausted(k.group_id));
                END IF;
                IF v_status = c_failed AND v_exhausted = 'block' AND (v_seq <@ v_skip) IS NOT TRUE THEN
                    v_verdict := 6;
                    v_stopped := true;
                    v_failed := true;
                    v_blocked := true;
                ELSE
                    v_verdict := CASE WHEN v_status = c_failed AND v_exhausted = 'skip' THEN 7 ELSE 4 END;
                    IF (v_seq <@ v_skip) IS NOT TRUE THEN
                        IF v_verdict = 4 THEN
                            PERFORM belfry.park(k.partition_id, k.group_id, v_seq, v_failures, p_errors[i]);
                        END IF;
                        IF v_seq > v_committed THEN
                            v_parked := array_append(v_parked, v_seq);
                        END IF;
                    END IF;
                END IF;
            ELSIF v_seq <= v_committed THEN
                NULL; -- finished before
            ELSIF v_status = c_completed AND v_stopped THEN
                v_verdict := 2; -- rule 3
            ELSE
                v_touched := true;
                IF v_status = c_completed THEN
                    v_committed := v_seq;
                    v_failures := 0;
                ELSE
                    v_stopped := true;
                    v_pause := greatest(v_pause, p_pauses[i]);
                    v_failed := v_failed OR v_status = c_failed;
                END IF;
            END IF;
            IF v_status > c_completed AND (v_verdict IS NULL OR v_verdict IN (4, 6, 7)) AND (v_redelivered IS NOT NULL OR v_seq > k.committed) THEN
                v_tried := array_append(v_tried, ROW(k.partition_id, v_seq, k.group_id, 0,
                    CASE WHEN v_redelivered OR v_seq <= k.lease_end THEN belfry.lease_begin(v_lease) END, v_now, v_status, v_lease,
                    convert_from(p_errors[i], 'UTF8'), p_consumers[i], p_instance)::belfry.attempt);
            END IF;
            IF v_verdict IS NOT NULL THEN
                RETURN NEXT ROW(1, i, v_verdict, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::belfry.ack_row;
            END IF;

            -- After the last ack of the call: move the cursor past dead letters, count a failure, and
            -- end the lease.
            CONTINUE WHEN i < p_last_entries[k.ord] AND p_calls[i + 1] = v_call;
            IF v_touched THEN
                v_changed := true;
                IF v_parked IS NOT NULL THEN
                    v_skip := coalesce(v_skip, '{}') + (SELECT range_agg(int8range(s.seq, s.seq + 1)) FROM unnest(v_parked) AS s(seq));
                END IF;
                IF v_skip IS NOT NULL THEN
                    v_committed := belfry.passed(v_committed, v_skip);
                    v_skip := belfry.skip_beyond(v_skip, v_committed);
                END IF;
                IF v_committed > v_committed_before THEN
                    v_failures := 0;
                    v_retry_at := NULL;
                    v_blocked := v_blocked AND v_stopped; -- otherwise a dlq ack has finished the message
                    -- The new first message was delivered once if it is in the delivered batch.
                    v_attempts := CASE WHEN v_committed >= k.lease_end AND (k.lease_end >= 0 OR v_lease IS NULL) THEN 0
                                       ELSE least(v_attempts, 1) END;
                END IF;
                IF v_failed AND v_lease IS NOT NULL THEN
                    v_failures := v_failures + 1;
                    v_retry_at := v_now + belfry.retry_delay(k.retry_delay, k.retry_backoff, k.retry_delay_max, v_failures);
                END IF;
                IF v_pause IS NOT NULL THEN
                    v_retry_at := v_now + v_pause * interval '1 millisecond';
                END IF;
                IF v_blocked THEN
                    v_retry_at := belfry.blocked();
                END IF;
            END IF;
            IF v_settling IS NOT NULL THEN
                v_settled := v_settled + (SELECT range_agg(int8range(s.seq, s.seq + 1)) FROM unnest(v_settling) AS s(seq));
                v_settled_count := v_settled_count + cardinality(v_settling);
            END IF;
            IF v_touched AND (v_stopped OR v_lease IS NULL OR k.lease_end >= 0 AND v_committed >= k.lease_end)
               OR v_redeliver OR v_settled_count > 0 AND (v_lease IS NULL OR k.lease_end < 0 AND v_settled_of_lease >= -k.lease_end)
            THEN
                v_released := true;
                IF v_lease IS NOT NULL THEN
                    v_lease := NULL;
                    v_ended_by := v_call;
                END IF;
            END IF;
        END LOOP;

        IF v_changed OR v_redeliver OR v_settled_count > 0 THEN
            v_changes := array_append(v_changes, ROW(k.ctid, k.ord, k.partition_id, k.group_id, CASE WHEN k.lease_until > v_now THEN k.lease_id END,
                v_ended_by, v_released, v_committed, v_skip, v_failures, v_attempts, v_retry_at, v_settled_count, v_settled_of_lease,
                v_now, k.limits_id)::belfry.ack_change);
        ELSE
            RETURN NEXT ROW(2, NULL, NULL, k.ord, k.partition_id, k.group_id, v_lease, v_ended_by, NULL, NULL, NULL, NULL)::belfry.ack_row;
        END IF;
    END LOOP;

    IF v_tried IS NOT NULL THEN
        PERFORM belfry.record_attempts(v_tried);
    END IF;
    IF v_changes IS NULL THEN
        RETURN;
    END IF;
    -- One statement for all cursors costs less than half as much as one statement for each cursor.
    RETURN QUERY
    UPDATE belfry.cursor c
       SET committed = d.committed, skip = d.skip, failures = d.failures, attempts = d.attempts, retry_at = d.retry_at,
           consumed = c.consumed + d.committed - c.committed,
           consumed_at = CASE WHEN d.committed > c.committed OR d.settled > 0 THEN d.judged_at ELSE c.consumed_at END,
           redrives = CASE WHEN d.settled > 0 THEN nullif(c.redrives - d.settled, 0) ELSE c.redrives END,
           lease_id = CASE WHEN NOT d.released THEN c.lease_id END,
           lease_until = CASE WHEN NOT d.released THEN c.lease_until END,
           lease_end = CASE WHEN NOT d.released THEN c.lease_end + d.settled_of_lease END,
           ready_at = CASE
               WHEN NOT d.released THEN c.ready_at
               WHEN p_sql_consumer AND d.committed >= p.last_seq THEN d.judged_at
               ELSE coalesce(
                   belfry.ready_at(d.partition_id, d.committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END, p.last_push_at,
                                   p.visible_until, q.delayed_processing, q.window_buffer, d.retry_at,
                                   c.redrives - coalesce(d.settled, 0), d.group_id),
                   CASE WHEN p_sql_consumer THEN d.judged_at END) END
      FROM unnest(v_changes) AS d
     CROSS JOIN LATERAL (
            SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p
             WHERE p.id >= d.partition_id AND p.id <= d.partition_id
             ORDER BY p.id DESC LIMIT 1) AS p
     CROSS JOIN LATERAL (
            SELECT q.delayed_processing, q.window_buffer FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE c.ctid = d.place
    RETURNING 2::smallint, NULL::integer, NULL::smallint, d.cursor_index, d.partition_id, d.group_id, d.lease_before, d.ended_by,
              CASE WHEN d.released THEN c.ready_at END,
              CASE WHEN d.released THEN extract(epoch FROM c.ready_at - statement_timestamp())::float8 END,
              d.released AND CASE WHEN c.redrives > 0 OR d.settled > 0 THEN true
                                  WHEN c.ready_at IS NULL THEN NOT p_alone OR NOT belfry.hold_drained(d.partition_id, d.committed) ELSE false END,
              d.released AND d.limits_id IS NOT NULL AND belfry.counts_leases(d.limits_id);
END $$;
