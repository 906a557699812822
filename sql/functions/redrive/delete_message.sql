-- Deletes a message with its dead letters, redrives, traces, failed attempts and marks of a resend. A cursor before the message skips it
-- from now on, so the depth of the cursor stays exact. A lease ends if it has no other message.
--
-- Returns a row for each changed cursor: the lease that may hold the message (or NULL), and the seconds
-- until the cursor is ready (NULL: not ready). If the message existed, a last row has only NULLs. Locks
-- the partition, then its cursors in group order. A wake must follow the commit.
CREATE FUNCTION belfry.delete_message(p_partition bigint, p_transaction text)
RETURNS TABLE (group_id bigint, lease_id uuid, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_seq bigint;
    v_committed bigint;
    v_skip int8multirange;
    v_redriven bigint;
    v_ends boolean;
    k record;
BEGIN
    PERFORM p.id FROM belfry.partition p WHERE p.id = p_partition AND NOT p.closed FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN; -- the purge of the queue deletes the message, and locks in another order
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    DELETE FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.transaction_id = p_transaction
    RETURNING m.seq INTO v_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE belfry.partition p SET holes = p.holes + 1 WHERE p.id = p_partition;
    DELETE FROM belfry.trace t WHERE t.partition_id = p_partition AND t.seq = v_seq;
    DELETE FROM belfry.attempt a WHERE a.partition_id = p_partition AND a.seq = v_seq;
    DELETE FROM belfry.resent r WHERE r.partition_id = p_partition AND r.seq = v_seq;
    DELETE FROM belfry.dead_letter d
     WHERE d.partition_id = p_partition AND d.seq = v_seq
       AND d.group_id = ANY (ARRAY (
            SELECT g.id FROM belfry.consumer_group g
             WHERE g.queue_id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = p_partition)));
    FOR k IN
        SELECT c.group_id, c.committed, c.skip, c.lease_id, c.lease_end, c.redrives
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition
         ORDER BY c.group_id
    LOOP
        DELETE FROM belfry.redrive r WHERE r.partition_id = p_partition AND r.group_id = k.group_id AND r.seq = v_seq
        RETURNING CASE WHEN r.lease_id = k.lease_id AND k.lease_end < 0 THEN 2 ELSE 1 END INTO v_redriven;
        v_redriven := coalesce(v_redriven, 0);
        CONTINUE WHEN v_redriven = 0 AND k.committed >= v_seq;
        group_id := k.group_id;
        lease_id := k.lease_id;
        v_skip := coalesce(k.skip, '{}') + int8multirange(int8range(v_seq, v_seq + 1));
        v_committed := belfry.passed(k.committed, v_skip);
        v_skip := belfry.skip_beyond(v_skip, v_committed);
        v_ends := k.lease_id IS NOT NULL
              AND CASE WHEN k.lease_end < 0 THEN v_redriven = 2 AND k.lease_end = -1
                       ELSE v_committed >= k.lease_end END;
        UPDATE belfry.cursor c
           SET committed = v_committed, skip = v_skip, redrives = nullif(c.redrives - least(v_redriven, 1), 0),
               -- Another message is the first after committed now. It was delivered at most once, in the
               -- same batch, and did not fail.
               attempts = CASE WHEN v_committed = k.committed THEN c.attempts
                               WHEN v_committed >= coalesce(c.lease_end, 0) THEN 0
                               ELSE least(c.attempts, 1) END,
               retry_at = CASE WHEN v_committed = k.committed THEN c.retry_at END,
               failures = CASE WHEN v_committed > k.committed THEN 0 ELSE c.failures END,
               lease_id = CASE WHEN v_ends THEN NULL ELSE c.lease_id END,
               lease_until = CASE WHEN v_ends THEN NULL ELSE c.lease_until END,
               lease_end = CASE WHEN v_ends THEN NULL WHEN v_redriven = 2 THEN c.lease_end + 1 ELSE c.lease_end END,
               ready_at = CASE WHEN v_ends OR (v_committed > k.committed OR v_redriven > 0) AND c.lease_id IS NULL
                    THEN belfry.ready_at(p_partition, v_committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END,
                                         p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
                                         CASE WHEN v_committed = k.committed THEN c.retry_at END,
                                         (c.redrives - least(v_redriven, 1))::integer, k.group_id)
                    ELSE c.ready_at END
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
         WHERE c.partition_id = p_partition AND c.group_id = k.group_id AND p.id = p_partition
        RETURNING extract(epoch FROM c.ready_at - statement_timestamp())::float8 INTO ready_in;
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT NULL::bigint, NULL::uuid, NULL::float8;
END $$;
