-- belfry.ack for a lease of redriven messages. The caller has locked the cursor. Each message is
-- settled by itself, and no other message with it.
CREATE FUNCTION belfry.ack_redelivery(p_partition bigint, p_group bigint, p_ids uuid[], p_status text, p_error text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_acked bigint := 0;
    v_settled integer := 0;
    v_release boolean := false;
    c record;
    f record;
    r record;
BEGIN
    SELECT k.ctid, k.committed, k.lease_id, k.lease_end, k.retry_at, k.redrives INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id >= p_group AND k.group_id <= p_group
     ORDER BY k.group_id DESC
     LIMIT 1;
    SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer, q.retry_limit,
           q.retry_backoff_ms, q.paused OR g.paused AS paused INTO f
      FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p
             WHERE p.id >= p_partition AND p.id <= p_partition
             ORDER BY p.id DESC
             LIMIT 1) AS p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group;
    IF NOT FOUND THEN
        PERFORM belfry.raise_lease_lost(c.lease_id);
    END IF;
    FOR r IN
        SELECT d.seq, d.failures
          FROM belfry.redrive d
         WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.lease_id = c.lease_id
           AND (p_ids IS NULL OR (SELECT m.id FROM belfry.message m WHERE m.partition_id = p_partition AND m.seq = d.seq) = ANY (p_ids))
         ORDER BY d.seq
    LOOP
        v_acked := v_acked + 1;
        IF p_status = 'dlq' OR p_status = 'failed' AND r.failures >= f.retry_limit THEN
            INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
            VALUES (p_partition, r.seq, p_group, r.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END,
                    coalesce(nullif(p_error, ''), 'Retries exhausted'))
            ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
        ELSIF p_status IN ('failed', 'retry') THEN
            v_release := true;
            UPDATE belfry.redrive d
               SET failures = d.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END,
                   retry_at = CASE WHEN p_status = 'failed' AND f.retry_backoff_ms > 0
                       THEN clock_timestamp() + belfry.retry_delay(f.retry_backoff_ms, d.failures + 1) END
             WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = r.seq;
            CONTINUE;
        END IF;
        DELETE FROM belfry.redrive d WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = r.seq;
        v_settled := v_settled + 1;
    END LOOP;
    IF v_acked = 0 THEN
        RETURN 0;
    END IF;
    v_release := v_release OR -c.lease_end - v_settled <= 0;
    UPDATE belfry.cursor k
       SET redrives = nullif(k.redrives - v_settled, 0),
           consumed_at = CASE WHEN v_settled > 0 THEN clock_timestamp() ELSE k.consumed_at END,
           lease_id = CASE WHEN v_release THEN NULL ELSE k.lease_id END,
           lease_until = CASE WHEN v_release THEN NULL ELSE k.lease_until END,
           lease_end = CASE WHEN v_release THEN NULL ELSE k.lease_end + v_settled END,
           ready_at = CASE WHEN v_release
               THEN coalesce(CASE WHEN c.committed < f.last_seq THEN belfry.ready_at(p_partition, c.committed, f.last_seq, f.last_push_at, f.visible_until, f.delayed_processing,
                                             f.window_buffer, f.paused, c.retry_at, (c.redrives - v_settled)::integer, p_group) END, clock_timestamp())
               ELSE k.ready_at END
     WHERE k.ctid = c.ctid;
    IF NOT FOUND THEN -- the messages would not be acknowledged
        RAISE EXCEPTION 'the cursor of group % in partition % is not where it was locked', p_group, p_partition;
    END IF;
    IF v_release THEN
        PERFORM belfry.announce_ready(p_group, p_partition);
    END IF;
    RETURN v_acked;
END $$;
