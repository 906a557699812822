-- belfry.ack for a lease of messages from the log. The caller has locked the cursor.
--
-- ready_at is never set to NULL. A push that commits before this transaction would not see the
-- cursor without ready_at, and no wake can follow this commit. So a drained cursor stays marked
-- ready. The server that gets the announcement, or the next pop, settles it and runs a wake
-- afterwards.
CREATE FUNCTION belfry.ack_delivery(p_partition bigint, p_group bigint, p_ids uuid[], p_status text, p_error text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_seqs bigint[];
    v_committed bigint;
    v_skip bigint[];
    v_dead boolean;
    v_failures integer;
    v_attempts integer;
    v_release boolean := false;
    v_retry_at timestamptz;
    c record;
    f record;
BEGIN
    SELECT k.ctid, k.committed, coalesce(k.skip, '{}') AS skip, k.lease_id, k.lease_end, k.failures, k.attempts, k.retry_at, k.redrives INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id >= p_group AND k.group_id <= p_group
     ORDER BY k.group_id DESC
     LIMIT 1;
    SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer, q.retry_limit, q.retry_backoff_ms,
           q.paused OR g.paused AS paused INTO f
      FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p
             WHERE p.id >= p_partition AND p.id <= p_partition
             ORDER BY p.id DESC
             LIMIT 1) AS p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group;
    IF NOT FOUND THEN -- the partition or the group is being deleted
        PERFORM belfry.raise_lease_lost(c.lease_id);
    END IF;
    SELECT coalesce(array_agg(m.seq ORDER BY m.seq), '{}') INTO v_seqs
      FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= c.lease_end AND m.seq <> ALL (c.skip)
       AND (p_ids IS NULL OR m.id = ANY (p_ids));
    v_committed := c.committed;
    v_skip := c.skip;
    v_failures := c.failures;
    v_attempts := c.attempts;
    v_dead := p_status = 'dlq' OR p_status = 'failed' AND c.failures >= f.retry_limit;
    IF p_status IN ('completed', 'success') AND p_ids IS NULL THEN
        v_committed := c.lease_end;
    ELSIF v_seqs = '{}' THEN
        RETURN 0;
    ELSIF p_status IN ('completed', 'success') THEN
        v_committed := v_seqs[cardinality(v_seqs)];
    ELSIF v_dead THEN
        v_skip := v_skip || v_seqs;
        INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
        SELECT p_partition, s.seq, p_group, c.failures, coalesce(nullif(p_error, ''), 'Retries exhausted')
          FROM unnest(v_seqs) AS s(seq)
         ORDER BY s.seq
        ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
    ELSE
        v_release := true;
    END IF;
    WHILE v_committed + 1 = ANY (v_skip) LOOP
        v_committed := v_committed + 1;
    END LOOP;
    IF v_committed > c.committed THEN
        v_failures := 0;
        v_attempts := CASE WHEN v_committed >= c.lease_end THEN 0 ELSE least(c.attempts, 1) END;
    ELSE
        v_retry_at := c.retry_at;
    END IF;
    IF p_status = 'failed' AND v_release THEN
        v_failures := v_failures + 1;
        IF f.retry_backoff_ms > 0 THEN
            v_retry_at := clock_timestamp() + belfry.retry_delay(f.retry_backoff_ms, v_failures);
        END IF;
    END IF;
    v_release := v_release OR v_committed >= c.lease_end;
    UPDATE belfry.cursor k
       SET committed = v_committed, failures = v_failures, attempts = v_attempts, retry_at = v_retry_at,
           skip = (SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(v_skip) AS s(seq) WHERE s.seq > v_committed),
           consumed = k.consumed + v_committed - c.committed,
           consumed_at = CASE WHEN v_committed > c.committed THEN clock_timestamp() ELSE k.consumed_at END,
           lease_id = CASE WHEN v_release THEN NULL ELSE k.lease_id END,
           lease_until = CASE WHEN v_release THEN NULL ELSE k.lease_until END,
           lease_end = CASE WHEN v_release THEN NULL ELSE k.lease_end END,
           ready_at = CASE WHEN v_release
               THEN coalesce(CASE WHEN v_committed < f.last_seq THEN belfry.ready_at(p_partition, v_committed, f.last_seq, f.last_push_at, f.visible_until, f.delayed_processing,
                                             f.window_buffer, f.paused, v_retry_at, c.redrives, p_group) END, clock_timestamp())
               ELSE k.ready_at END
     WHERE k.ctid = c.ctid;
    IF NOT FOUND THEN -- the messages would not be acknowledged
        RAISE EXCEPTION 'the cursor of group % in partition % is not where it was locked', p_group, p_partition;
    END IF;
    IF v_release THEN
        PERFORM belfry.announce_ready(p_group, p_partition);
    END IF;
    RETURN cardinality(v_seqs);
END $$;
