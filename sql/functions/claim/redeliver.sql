-- Delivers up to p_batch redriven messages of one cursor, in the order of the log. belfry.claim calls it
-- with the cursor locked.
--
-- Returns the row of the partition and then a row for each message with its attempt. With p_lease NULL
-- the messages are settled on delivery (autoAck). The outcome is 3 if no message is left to deliver.
-- Returns no row if the first redriven message still waits for its retry delay, or is larger than
-- p_bytes. The first message may exceed p_bytes, unless p_delivered says that the pop delivers other
-- messages already.
--
-- maxDeliveries counts the deliveries since the redrive. A message that reached maxDeliveries becomes a
-- dead letter again, or settled with onExhausted = 'skip'. A message with one delivery left is delivered alone: if it kills its consumer, no
-- other message uses up a delivery.
CREATE FUNCTION belfry.redeliver(
    p_group bigint, p_partition bigint, p_batch bigint, p_lease uuid, p_lease_time interval, p_now timestamptz,
    p_bytes bigint, p_delivered boolean
) RETURNS SETOF belfry.claim_row LANGUAGE plpgsql AS $$
DECLARE
    v_max_deliveries bigint;
    v_last bigint;
    v_seqs bigint[];
    v_attempts integer[];
    v_given_up bigint[];
    v_skips boolean;
    v_settled bigint;
    v_bytes bigint := 0;
    v_left integer;
    v_waiting_seq bigint;
    one record;
    r belfry.claim_row;
BEGIN
    SELECT nullif(q.max_deliveries, 0) INTO v_max_deliveries
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
     WHERE p.id = p_partition;
    FOR one IN
        SELECT d.seq, d.attempts, d.deliveries, d.retry_at, m.bytes
          FROM belfry.redrive d
         CROSS JOIN LATERAL (
                SELECT belfry.delivery_bytes(m.payload, m.transaction_id, m.producer_sub, m.headers, true) AS bytes
                  FROM belfry.message m
                 WHERE m.partition_id = d.partition_id AND m.seq = d.seq OFFSET 0) AS m
         WHERE d.partition_id = p_partition AND d.group_id = p_group
         ORDER BY d.seq LIMIT p_batch
    LOOP
        IF one.retry_at > p_now THEN
            v_waiting_seq := one.seq;
            EXIT;
        ELSIF one.deliveries >= v_max_deliveries THEN
            v_given_up := array_append(v_given_up, one.seq);
        ELSIF v_bytes + one.bytes > p_bytes AND (p_delivered OR v_seqs IS NOT NULL) THEN
            v_waiting_seq := one.seq;
            EXIT;
        ELSIF one.deliveries = v_max_deliveries - 1 AND v_seqs IS NOT NULL AND p_lease IS NOT NULL THEN
            EXIT; -- the last delivery of this message must have no other message
        ELSE
            v_seqs := array_append(v_seqs, one.seq);
            v_attempts := array_append(v_attempts, one.attempts + 1);
            v_bytes := v_bytes + one.bytes;
        END IF;
        v_last := one.seq;
        EXIT WHEN one.deliveries = v_max_deliveries - 1 AND p_lease IS NOT NULL;
    END LOOP;
    -- A redrive whose message is deleted can never be delivered.
    DELETE FROM belfry.redrive d
     WHERE d.partition_id = p_partition AND d.group_id = p_group AND coalesce(d.seq < coalesce(v_last, v_waiting_seq), true)
       AND (SELECT true FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq) IS NULL;
    GET DIAGNOSTICS v_settled = ROW_COUNT;
    IF v_last IS NULL AND v_waiting_seq IS NOT NULL THEN
        IF v_settled > 0 THEN
            UPDATE belfry.cursor c SET redrives = c.redrives - v_settled WHERE c.partition_id = p_partition AND c.group_id = p_group;
        END IF;
        RETURN;
    END IF;
    IF v_given_up IS NOT NULL THEN
        v_skips := belfry.on_exhausted(p_group) = 'skip';
        WITH gone AS (
            DELETE FROM belfry.redrive d
             WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = ANY (v_given_up)
            RETURNING d.seq, d.attempts, d.deliveries
        )
        INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
        SELECT p_partition, g.seq, p_group, g.attempts,
               'delivered ' || g.deliveries || ' times since it was redriven, without success (maxDeliveries)'
          FROM gone g
         WHERE NOT v_skips
         ORDER BY g.seq
        ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
        v_settled := v_settled + cardinality(v_given_up);
        IF v_skips THEN
            r.skipped := cardinality(v_given_up);
        ELSE
            r.given_up := cardinality(v_given_up);
        END IF;
    END IF;
    r.item := 1;
    r.partition_id := p_partition;
    r.outcome := CASE WHEN v_seqs IS NULL THEN 3 ELSE 2 END;
    IF v_seqs IS NOT NULL AND p_lease IS NOT NULL THEN
        UPDATE belfry.redrive d
           SET lease_id = p_lease, attempts = d.attempts + 1, deliveries = d.deliveries + 1
         WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = ANY (v_seqs);
        UPDATE belfry.cursor c
           SET lease_id = p_lease, lease_until = p_now + p_lease_time, lease_end = -cardinality(v_seqs),
               ready_at = p_now + p_lease_time, redrives = c.redrives - v_settled
         WHERE c.partition_id = p_partition AND c.group_id = p_group
        RETURNING c.ready_at INTO r.ready_at;
    ELSE
        WITH settled AS (
            DELETE FROM belfry.redrive d
             WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = ANY (v_seqs)
            RETURNING d.seq, d.failures, d.attempts, d.deliveries, d.redriven_at
        )
        SELECT json_agg(s) INTO r.undo FROM settled s;
        SELECT CASE WHEN v_last IS NOT NULL THEN nullif(c.redrives - v_settled - coalesce(cardinality(v_seqs), 0), 0) END INTO v_left
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition AND c.group_id = p_group;
        UPDATE belfry.cursor c
           SET lease_id = NULL, lease_until = NULL, lease_end = NULL,
               consumed_at = CASE WHEN v_seqs IS NULL THEN c.consumed_at ELSE p_now END, redrives = v_left,
               ready_at = belfry.ready_at(p_partition, c.committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END,
                                          p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
                                          c.retry_at, v_left, p_group)
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
         WHERE c.partition_id = p_partition AND c.group_id = p_group AND p.id = p_partition
        RETURNING c.ready_at INTO r.ready_at;
        r.needs_wake := coalesce(r.ready_at > p_now, true);
    END IF;
    RETURN NEXT r;
    RETURN QUERY
    SELECT 2::smallint, p_partition, NULL::smallint, NULL::timestamptz, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::json,
           m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.headers, m.encrypted,
           CASE WHEN p_lease IS NULL THEN 0 ELSE d.attempts END,
           NULL::boolean, NULL::boolean, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
      FROM unnest(v_seqs, v_attempts) AS d(seq, attempts)
     CROSS JOIN LATERAL (
            SELECT m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.headers, m.encrypted
              FROM belfry.message m
             WHERE m.partition_id = p_partition AND m.seq = d.seq OFFSET 0) AS m
     ORDER BY d.seq;
END $$;
