-- Moves a locked cursor past messages that must not be delivered. belfry.claim calls it for queues with
-- expireAfterSeconds or maxDeliveries.
--
-- 1. Expired messages are older than p_expire_after seconds (0: no limit). created_at never
--    decreases, so they are a prefix of the log. With p_dead_letter_expired they become dead
--    letters, at most 1000 in one call. more is true if further expired messages are left.
-- 2. A first message that was delivered p_max_deliveries times (0: no limit) becomes a dead letter.
--    Then given_up is 1. With onExhausted = 'skip' it becomes no dead letter, and skipped is 1. With
--    onExhausted = 'block' the cursor does not move, and blocked is true.
--
-- alone is true if the first message must be delivered alone. An expired lease does not say which of its
-- messages kills the consumer. So the last attempt delivers each message of the batch alone, and only
-- the message that kills the consumer uses up its attempts.
--
-- Without p_dead_letter_expired, expired counts seqs, including deleted messages, at a constant cost.
CREATE FUNCTION belfry.skip_undeliverable(
    p_partition bigint, p_group bigint, p_now timestamptz,
    p_expire_after bigint, p_dead_letter_expired boolean, p_max_deliveries bigint
) RETURNS TABLE (moved boolean, committed bigint, skip int8multirange, expired bigint, given_up integer, skipped integer, blocked boolean, more boolean, alone boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_upto bigint;
    v_head bigint;
    c record;
BEGIN
    SELECT k.committed, k.skip, k.attempts, k.lease_end, coalesce(k.alone_until, 0) AS alone_until INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    committed := c.committed;
    expired := 0;
    given_up := 0;
    skipped := 0;
    blocked := false;
    more := false;

    IF p_expire_after > 0 AND (
        SELECT m.created_at FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > c.committed
         ORDER BY m.seq LIMIT 1) <= p_now - make_interval(secs => p_expire_after)
    THEN
        v_upto := belfry.seq_at(p_partition, p_now - make_interval(secs => p_expire_after));
        IF p_dead_letter_expired THEN
            more := v_upto > c.committed + 1000;
            v_upto := least(v_upto, c.committed + 1000);
            INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
            SELECT p_partition, m.seq, p_group, CASE WHEN m.seq = c.committed + 1 THEN c.attempts ELSE 0 END,
                   'expired after ' || p_expire_after || ' s'
              FROM belfry.message m
             WHERE m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
             ORDER BY m.seq
            ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
            GET DIAGNOSTICS expired = ROW_COUNT;
        ELSE
            expired := v_upto - c.committed - coalesce(belfry.skipped_after(c.skip, 0) - belfry.skipped_after(c.skip, v_upto), 0);
        END IF;
        committed := v_upto;
    ELSIF p_max_deliveries > 0 AND c.attempts >= p_max_deliveries THEN
        SELECT m.seq INTO v_head
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
         ORDER BY m.seq LIMIT 1;
        IF v_head IS NOT NULL THEN
            CASE belfry.on_exhausted(p_group)
                WHEN 'block' THEN
                    UPDATE belfry.cursor k SET retry_at = belfry.blocked() WHERE k.partition_id = p_partition AND k.group_id = p_group;
                    blocked := true;
                WHEN 'skip' THEN
                    skipped := 1;
                    committed := v_head;
                ELSE
                    PERFORM belfry.park(p_partition, p_group, v_head, c.attempts,
                                        convert_to('delivered ' || c.attempts || ' times without success (maxDeliveries)', 'UTF8'));
                    given_up := 1;
                    committed := v_head;
            END CASE;
        END IF;
    END IF;

    moved := committed > c.committed;
    IF moved THEN
        c.attempts := 0;
        c.skip := belfry.skip_beyond(c.skip, committed);
        UPDATE belfry.cursor k
           SET committed = skip_undeliverable.committed, skip = c.skip, attempts = 0, failures = 0, retry_at = NULL,
               expired = k.expired + skip_undeliverable.expired
         WHERE k.partition_id = p_partition AND k.group_id = p_group;
    ELSIF c.attempts > 0 AND c.attempts = p_max_deliveries - 1 AND c.lease_end > greatest(c.alone_until, c.committed + 1) THEN
        c.alone_until := c.lease_end;
        UPDATE belfry.cursor k
           SET alone_until = c.lease_end
         WHERE k.partition_id = p_partition AND k.group_id = p_group;
    END IF;
    skip := c.skip;
    alone := p_max_deliveries > 0 AND (c.attempts >= p_max_deliveries - 1 OR c.alone_until > committed);
    RETURN NEXT;
END $$;
