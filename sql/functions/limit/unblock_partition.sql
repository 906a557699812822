-- Decides about the first message of a blocked cursor; see belfry.blocked. p_action: 'retry' delivers the message
-- at once, and its failures and deliveries count from 0. 'deadLetter' makes the message a dead letter with its
-- last error. 'skip' counts the message as done. The cursor then goes on.
--
-- known is false if the queue, the partition, or the cursor of the group does not exist. unblocked is false if the
-- cursor is not blocked. message_id and transaction_id are NULL if the message was deleted. Locks the cursor. A
-- wake must follow the commit. With p_in_session no wake can follow, so the cursor stays marked ready although it
-- may be empty.
CREATE FUNCTION belfry.unblock_partition(
    p_queue text, p_partition text, p_group text, p_action text, p_in_session boolean,
    OUT known boolean, OUT unblocked boolean, OUT partition_id bigint, OUT group_id bigint, OUT message_id uuid, OUT transaction_id text
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
#variable_conflict use_column
DECLARE
    v_seq bigint;
    v_committed bigint;
    v_error text;
    c record;
BEGIN
    SELECT p.id, g.id INTO partition_id, group_id
      FROM belfry.queue q
      JOIN belfry.partition p ON p.queue_id = q.id AND p.name = p_partition AND NOT p.closed
      JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = p_group
     WHERE q.name = p_queue AND q.deleted_at IS NULL;
    PERFORM k.group_id FROM belfry.cursor k
      WHERE k.partition_id = unblock_partition.partition_id AND k.group_id = unblock_partition.group_id
        FOR NO KEY UPDATE;
    known := FOUND;
    -- The snapshot of this statement is newer than the lock.
    SELECT k.committed, k.skip, k.attempts, k.failures, k.retry_at INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = unblock_partition.partition_id AND k.group_id = unblock_partition.group_id;
    unblocked := coalesce(c.retry_at = belfry.blocked(), false);
    IF NOT unblocked THEN
        RETURN;
    END IF;
    v_committed := c.committed;
    SELECT m.seq, m.id, m.transaction_id INTO v_seq, message_id, transaction_id
      FROM belfry.message m
     WHERE m.partition_id = unblock_partition.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
     ORDER BY m.seq LIMIT 1;
    IF v_seq IS NOT NULL AND p_action <> 'retry' THEN
        IF p_action = 'deadLetter' THEN
            SELECT a.error INTO v_error
              FROM belfry.attempt a
             WHERE a.partition_id = unblock_partition.partition_id AND a.seq = v_seq AND a.group_id = unblock_partition.group_id
             ORDER BY a.nth DESC LIMIT 1;
            PERFORM belfry.park(partition_id, group_id, v_seq, coalesce(nullif(c.failures, 0), c.attempts), convert_to(v_error, 'UTF8'));
        END IF;
        v_committed := coalesce(belfry.passed(v_seq, c.skip), v_seq);
    END IF;
    UPDATE belfry.cursor k
       SET committed = v_committed, skip = belfry.skip_beyond(k.skip, v_committed), attempts = 0, failures = 0, retry_at = NULL,
           consumed = k.consumed + v_committed - k.committed,
           consumed_at = CASE WHEN v_committed > k.committed THEN clock_timestamp() ELSE k.consumed_at END,
           ready_at = CASE
               WHEN k.lease_until > clock_timestamp() THEN k.ready_at -- a lease of redriven messages
               ELSE coalesce(
                   belfry.ready_at(p.id, v_committed, p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
                                   NULL, k.redrives, k.group_id),
                   CASE WHEN p_in_session THEN clock_timestamp() END) END
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
     WHERE p.id = unblock_partition.partition_id AND k.partition_id = p.id AND k.group_id = unblock_partition.group_id;
END $$;
REVOKE ALL ON FUNCTION belfry.unblock_partition(text, text, text, text, boolean) FROM PUBLIC;
