-- Applies acknowledgments: locks their cursors, judges each ack by the rules below, and writes the
-- changes. The HTTP API (store/ack_apply) and belfry.ack call it.
--
-- The cursors, by array:
--
--   p_partitions, p_partition_uids, p_groups  Distinct cursors. A partition with another uid is
--                    another one, which got the same id after a restore.
--   p_last_entries   The index of the last entry of each cursor. Entries are sorted by cursor.
--
-- The entries, by array, sorted by call and seq within a cursor. An entry is an ack, or all acks
-- of one call for one cursor, if all of them complete messages under one lease:
--
--   p_calls          The number of the call, from 1. Calls are judged one after the other, as if
--                    each had its own transaction.
--   p_seqs           The message; the last one of several messages. 0: see p_lookups.
--   p_leases         The lease of the ack. The zero UUID: the ack is not fenced.
--   p_statuses       0 no effect, 1 completed, 2 failed, 3 dead letter, 4 retry
--   p_errors         The error text in UTF-8, for a dead letter. An empty array: no texts.
--   p_last_messages  The index of the last message of each entry in p_messages, which has the seqs
--                    of all messages in ascending order.
--
-- p_lookups are the entries whose seq is 0, with the transaction id of the message in
-- p_transactions. A message with an id in p_hidden does not exist for the ack: the same transaction
-- pushes it later. p_required: leases whose cursors are locked as well. p_patience: the lock_timeout
-- of this transaction from here on. NULL: unchanged.
--
-- p_sql_consumer: the caller is the transaction of a SQL consumer. ready_at is never set to NULL
-- then: a push that commits before this transaction would not see the cursor without ready_at, and
-- no wake can follow this commit. So a drained cursor stays marked ready, and the server that gets
-- the announcement, or the next pop, settles it.
--
-- The rules for the acks of one call and one cursor:
--
--   1. An ack with a lease that is not the live lease of the cursor is refused.
--   2. completed moves the cursor to the message, never back. Acks of finished messages succeed.
--   3. The first failed ack with retries left, or the first retry, stops the cursor and ends the
--      lease: its message and all later ones are redelivered. So completed acks of later messages
--      are refused. A failed ack counts a failure and starts the retry delay.
--   4. A failed ack without retries left, or dlq, makes a dead letter. The cursor skips the message
--      and stays where it is for the messages before it.
--   5. The lease ends when the cursor reaches its end.
--   6. A redriven message counts alone and does not move the cursor. The lease of a redelivery ends
--      when all its messages are settled, or with the first failed ack or retry.
--
-- Locks the cursors in (partition, group) order. Rows are reached by their newest version; see
-- sql/schema/partition.sql.
CREATE FUNCTION belfry.apply_acks(
    p_partitions bigint[], p_partition_uids uuid[], p_groups text[], p_last_entries integer[],
    p_calls integer[], p_seqs bigint[], p_leases uuid[], p_statuses smallint[], p_errors bytea[],
    p_last_messages integer[], p_messages bigint[],
    p_lookups integer[], p_transactions text[], p_hidden uuid[], p_required uuid[], p_patience text, p_sql_consumer boolean DEFAULT false
) RETURNS SETOF belfry.ack_row LANGUAGE plpgsql AS $$
DECLARE
    c_unfenced constant uuid := '00000000-0000-0000-0000-000000000000';
    v_partitions bigint[] := p_partitions;
    v_uids uuid[] := p_partition_uids;
    v_groups text[] := p_groups;
    v_seqs bigint[] := p_seqs;
    v_order integer[]; -- the entries in the order of judgment; NULL: as they come
    v_changes belfry.ack_change[];
    v_written integer;
    r belfry.ack_row;
    r_cursor belfry.ack_row;
    k record;
    i integer;
    v_now timestamptz;
    v_seq bigint;
    v_message integer;
    v_verdict smallint;
    v_expand boolean; -- redriven messages are possible, so each message is judged alone
    v_call integer;
    -- The state of the cursor.
    v_lease uuid; -- the live lease
    v_committed bigint;
    v_skip bigint[];
    v_failures integer;
    v_attempts integer;
    v_retry_at timestamptz;
    v_settled bigint[]; -- redriven messages
    v_settled_of_lease integer;
    v_redelivered boolean; -- the lease delivered the redriven message; NULL: the message is not redriven
    v_redrive_failures integer;
    -- What the call, and what all calls, did to the cursor.
    v_call_committed bigint;
    v_call_skip bigint[];
    v_touched boolean;
    v_stopped boolean;
    v_failed boolean;
    v_release boolean;
    v_changed boolean;
    v_redriven boolean;
    v_redriven_release boolean;
    v_released boolean;
    v_ended_by integer;
    v_patience text;
BEGIN
    IF p_patience IS NOT NULL THEN
        v_patience := set_config('lock_timeout', p_patience, true);
    END IF;
    IF cardinality(p_required) > 0 THEN
        SELECT v_partitions || array_agg(c.partition_id), v_uids || array_agg(p.uid), v_groups || array_agg(g.name)
          INTO v_partitions, v_uids, v_groups
          FROM belfry.cursor c
          JOIN belfry.partition p ON p.id = c.partition_id
          JOIN belfry.consumer_group g ON g.id = c.group_id
         WHERE c.lease_id = ANY (p_required)
           AND NOT EXISTS (
                SELECT 1 FROM unnest(p_partitions, p_partition_uids, p_groups) AS w(partition_id, uid, name)
                 WHERE w.partition_id = c.partition_id AND w.uid = p.uid AND w.name = g.name)
        HAVING count(*) > 0;
        IF NOT FOUND THEN
            v_partitions := p_partitions;
            v_uids := p_partition_uids;
            v_groups := p_groups;
        END IF;
    END IF;
    r.item := 1;
    IF cardinality(p_lookups) > 0 THEN
        r.verdict := 1;
        FOR k IN
            SELECT l.entry, m.seq
              FROM unnest(p_lookups, p_transactions, p_hidden) AS l(entry, transaction_id, hidden)
              LEFT JOIN LATERAL (
                    SELECT m.seq FROM belfry.message m
                     WHERE m.partition_id = p_partitions[(SELECT min(e.ord) FROM unnest(p_last_entries) WITH ORDINALITY AS e(last, ord)
                                                           WHERE e.last >= l.entry)]
                       AND m.transaction_id = l.transaction_id AND m.id IS DISTINCT FROM l.hidden
                     LIMIT 1) AS m ON true
        LOOP
            IF k.seq IS NULL THEN
                r.entry := k.entry;
                RETURN NEXT r;
            ELSE
                v_seqs[k.entry] := k.seq;
            END IF;
        END LOOP;
        -- The order within each cursor is known only now.
        SELECT array_agg(e.entry ORDER BY e.cursor, e.call, e.seq, e.entry) INTO v_order
          FROM (SELECT s.call, s.seq, s.entry, (SELECT min(l.ord) FROM unnest(p_last_entries) WITH ORDINALITY AS l(last, ord)
                                                 WHERE l.last >= s.entry) AS cursor
                  FROM unnest(p_calls, v_seqs) WITH ORDINALITY AS s(call, seq, entry)) AS e;
    END IF;

    FOR k IN
        SELECT w.ord, w.retry_limit, w.retry_backoff_ms, c.ctid, c.partition_id, c.group_id, c.committed, c.skip, c.failures,
               c.attempts, c.lease_id, c.lease_until, coalesce(c.lease_end, 0) AS lease_end, c.redrives, c.retry_at, c.start_at
          FROM (SELECT w.ord, w.partition_id, g.id AS group_id, q.retry_limit, q.retry_backoff_ms
                  FROM unnest(v_partitions, v_uids, v_groups) WITH ORDINALITY AS w(partition_id, uid, group_name, ord)
                 CROSS JOIN LATERAL (
                        SELECT p.uid, p.queue_id FROM belfry.partition p
                         WHERE p.id >= w.partition_id AND p.id <= w.partition_id
                         ORDER BY p.id DESC
                         LIMIT 1) AS p
                 CROSS JOIN LATERAL (
                        SELECT q.retry_limit, q.retry_backoff_ms
                          FROM belfry.queue q WHERE q.id = p.queue_id AND (q.deleted_at IS NULL OR p_sql_consumer) OFFSET 0) AS q
                 CROSS JOIN LATERAL (
                        SELECT g.id FROM belfry.consumer_group g
                         WHERE g.queue_id = p.queue_id AND g.name = w.group_name OFFSET 0) AS g
                 WHERE p.uid = w.uid
                 ORDER BY w.partition_id, g.id) AS w
         CROSS JOIN LATERAL (
                SELECT c.ctid, c.partition_id, c.group_id, c.committed, c.skip, c.failures, c.attempts, c.lease_id, c.lease_until,
                       c.lease_end, c.redrives, c.retry_at, c.start_at
                  FROM belfry.cursor c
                 WHERE c.partition_id = w.partition_id AND c.group_id >= w.group_id AND c.group_id <= w.group_id
                 ORDER BY c.group_id DESC
                 LIMIT 1
                   FOR NO KEY UPDATE) AS c
    LOOP
        v_now := clock_timestamp();
        v_lease := CASE WHEN k.lease_until > v_now THEN k.lease_id END;
        v_committed := k.committed;
        v_skip := k.skip;
        v_failures := k.failures;
        v_attempts := k.attempts;
        v_retry_at := k.retry_at;
        v_expand := coalesce(k.redrives, 0) > 0 OR k.lease_end < 0;
        v_settled := NULL;
        v_settled_of_lease := 0;
        v_changed := false;
        v_redriven := false;
        v_redriven_release := false;
        v_released := false;
        v_call := 0;
        v_ended_by := CASE WHEN v_lease IS NULL THEN 0 END;
        -- One round after the last entry ends the last call.
        FOR v_at IN coalesce(p_last_entries[k.ord - 1], 0) + 1 .. coalesce(p_last_entries[k.ord] + 1, 0) LOOP
            i := CASE WHEN v_at > p_last_entries[k.ord] THEN NULL WHEN v_order IS NULL THEN v_at ELSE v_order[v_at] END;
            IF v_call > 0 AND p_calls[i] IS DISTINCT FROM v_call THEN
                IF v_touched THEN
                    IF v_skip IS NOT NULL THEN
                        WHILE v_committed + 1 = ANY (v_skip) LOOP
                            v_committed := v_committed + 1;
                        END LOOP;
                        v_skip := ARRAY (SELECT s.seq FROM unnest(v_skip) AS s(seq) WHERE s.seq > v_committed ORDER BY s.seq);
                    END IF;
                    IF v_committed > v_call_committed THEN
                        v_failures := 0;
                        v_retry_at := NULL;
                        -- The new first message was delivered once, with its batch. After the end of
                        -- the batch, it was not.
                        v_attempts := CASE WHEN k.lease_end < 0 AND v_lease IS NOT NULL THEN least(v_attempts, 1)
                                           WHEN v_committed >= k.lease_end THEN 0
                                           ELSE least(v_attempts, 1) END;
                    END IF;
                    IF v_failed AND v_lease IS NOT NULL THEN
                        v_failures := v_failures + 1;
                        IF k.retry_backoff_ms > 0 THEN
                            v_retry_at := v_now + belfry.retry_delay(k.retry_backoff_ms, v_failures);
                        END IF;
                    END IF;
                    v_release := v_stopped OR v_lease IS NULL OR k.lease_end >= 0 AND v_committed >= k.lease_end;
                    v_changed := true;
                ELSE
                    v_release := false;
                END IF;
                IF v_redriven AND (v_redriven_release OR v_lease IS NULL OR k.lease_end < 0 AND v_settled_of_lease >= -k.lease_end) THEN
                    v_release := true;
                END IF;
                IF v_release THEN
                    v_released := true;
                    IF v_lease IS NOT NULL THEN
                        v_lease := NULL;
                        v_ended_by := v_call;
                    END IF;
                END IF;
            END IF;
            EXIT WHEN i IS NULL;
            IF p_calls[i] <> v_call THEN
                v_call := p_calls[i];
                v_touched := false;
                v_stopped := false;
                v_failed := false;
                v_call_committed := v_committed;
                v_call_skip := v_skip;
            END IF;
            CONTINUE WHEN v_seqs[i] = 0;
            v_message := 0;
            FOREACH v_seq IN ARRAY
                CASE WHEN v_expand AND p_last_messages[i] > coalesce(p_last_messages[i - 1], 0) + 1
                     THEN p_messages[coalesce(p_last_messages[i - 1], 0) + 1 : p_last_messages[i]]
                     ELSE ARRAY[v_seqs[i]] END
            LOOP
                v_message := v_message + 1;
                v_verdict := NULL;
                IF v_expand THEN
                    SELECT x.failures, coalesce(x.lease_id = k.lease_id, false) INTO v_redrive_failures, v_redelivered
                      FROM belfry.redrive x
                     WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                END IF;
                IF p_leases[i] <> c_unfenced AND p_leases[i] IS DISTINCT FROM v_lease THEN
                    v_verdict := 2;
                ELSIF v_seq = ANY (v_settled) AND (k.lease_end < 0 OR p_leases[i] = c_unfenced) THEN
                    v_verdict := CASE WHEN p_statuses[i] = 0 THEN 4 END;
                ELSIF v_expand AND v_redelivered IS NOT NULL
                      AND (v_redelivered OR p_leases[i] = c_unfenced AND (v_seq <= v_call_committed OR v_seq = ANY (v_call_skip))) THEN
                    IF p_statuses[i] = 0 THEN
                        v_verdict := 4;
                    ELSIF p_statuses[i] IN (1, 3) OR p_statuses[i] = 2 AND v_redrive_failures >= k.retry_limit THEN
                        v_redriven := true;
                        v_settled := array_append(v_settled, v_seq);
                        IF v_redelivered THEN
                            v_settled_of_lease := v_settled_of_lease + 1;
                        END IF;
                        DELETE FROM belfry.redrive x WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                        IF p_statuses[i] <> 1 THEN
                            v_verdict := 5;
                            PERFORM belfry.park(k.partition_id, k.group_id, v_seq, v_redrive_failures + CASE p_statuses[i] WHEN 2 THEN 1 ELSE 0 END,
                                                p_errors[i]);
                        END IF;
                    ELSE
                        v_redriven := true;
                        v_redriven_release := true;
                        IF p_statuses[i] = 2 THEN
                            UPDATE belfry.redrive x
                               SET failures = v_redrive_failures + 1,
                                   retry_at = CASE WHEN k.retry_backoff_ms > 0
                                       THEN v_now + belfry.retry_delay(k.retry_backoff_ms, v_redrive_failures + 1) END
                             WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                        END IF;
                    END IF;
                ELSIF k.lease_end < 0 AND p_leases[i] = v_lease THEN
                    -- The message was settled before, so a repetition changes nothing.
                    v_verdict := CASE WHEN p_statuses[i] = 0 THEN 4 END;
                ELSIF p_statuses[i] = 0 THEN
                    v_verdict := 4;
                ELSIF p_statuses[i] = 3
                      OR p_statuses[i] = 2 AND v_seq > v_committed AND NOT v_stopped AND v_failures >= k.retry_limit THEN
                    v_verdict := 5;
                    v_touched := true;
                    IF v_skip IS NULL OR v_seq <> ALL (v_skip) THEN
                        PERFORM belfry.park(k.partition_id, k.group_id, v_seq, v_failures, p_errors[i]);
                        IF v_seq > v_committed THEN
                            v_skip := array_append(v_skip, v_seq);
                        END IF;
                    END IF;
                ELSIF v_seq <= v_committed THEN
                    NULL; -- finished before
                ELSIF p_statuses[i] = 1 AND v_stopped THEN
                    v_verdict := 3;
                ELSE
                    v_touched := true;
                    IF p_statuses[i] = 1 THEN
                        v_committed := v_seq;
                        v_failures := 0;
                    ELSE
                        v_stopped := true;
                        v_failed := v_failed OR p_statuses[i] = 2;
                    END IF;
                END IF;
                IF v_verdict IS NOT NULL THEN
                    r.entry := i;
                    r.message := CASE WHEN v_expand AND p_last_messages[i] > coalesce(p_last_messages[i - 1], 0) + 1 THEN v_message END;
                    r.verdict := v_verdict;
                    RETURN NEXT r;
                END IF;
            END LOOP;
        END LOOP;

        IF v_changed OR v_redriven THEN
            v_changes := array_append(v_changes, ROW(k.ctid, k.ord, k.partition_id, k.group_id, CASE WHEN k.lease_until > v_now THEN k.lease_id END,
                v_ended_by, v_released, v_committed, v_skip, v_failures, v_attempts, v_retry_at, cardinality(v_settled), v_settled_of_lease,
                v_now)::belfry.ack_change);
        ELSE
            r_cursor.item := 2;
            r_cursor.cursor_index := k.ord;
            r_cursor.partition_id := k.partition_id;
            r_cursor.group_id := k.group_id;
            r_cursor.lease_before := v_lease;
            r_cursor.ended_by := v_ended_by;
            RETURN NEXT r_cursor;
        END IF;
    END LOOP;

    -- One statement for all cursors: its cost per cursor is less than half that of a statement each.
    RETURN QUERY
        UPDATE belfry.cursor c
           SET committed = d.committed,
               skip = nullif(d.skip, '{}'),
               failures = d.failures, attempts = d.attempts, retry_at = d.retry_at,
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
                                       p.visible_until, q.delayed_processing, q.window_buffer, q.paused OR g.paused, d.retry_at,
                                       c.redrives - coalesce(d.settled, 0), d.group_id),
                       CASE WHEN p_sql_consumer THEN d.judged_at END) END
          FROM unnest(v_changes) AS d
         CROSS JOIN LATERAL (
                SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
                  FROM belfry.partition p
                 WHERE p.id >= d.partition_id AND p.id <= d.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = d.group_id OFFSET 0) AS g
         CROSS JOIN LATERAL (
                SELECT q.delayed_processing, q.window_buffer, q.paused FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
         WHERE c.ctid = d.place
        RETURNING 2::smallint, NULL::integer, NULL::integer, NULL::smallint, d.cursor_index, d.partition_id, d.group_id, d.lease_before,
                  d.ended_by, CASE WHEN d.released THEN c.ready_at END,
                  CASE WHEN d.released THEN extract(epoch FROM c.ready_at - statement_timestamp())::float8 END,
                  d.released AND (c.ready_at IS NULL OR c.redrives > 0 OR d.settled > 0);
    GET DIAGNOSTICS v_written = ROW_COUNT;
    IF v_written < coalesce(cardinality(v_changes), 0) THEN -- the messages would not be acknowledged
        RAISE EXCEPTION 'a cursor is not where it was locked';
    END IF;
END $$;
