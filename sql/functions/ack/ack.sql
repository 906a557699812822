-- Acknowledges messages that belfry.pop returned. message_ids NULL: all messages that the lease still
-- holds. If the lease is over, the call raises BF010. Then the transaction rolls back, so the effects of
-- two consumers never commit for one message. The values of status:
--
--   completed  The messages, and all earlier messages of the partition, are finished.
--   failed     The first of the messages and all later messages are delivered again, after the queue's
--              retryDelay or after retry_after. A message without a retry left becomes a dead letter.
--   retry      The messages are delivered again, at once or after retry_after. No failure is counted.
--   dlq        The messages become dead letters.
--
-- apply_acks has the rules. Locks the cursor. Returns the number of acknowledged messages that the lease held.
CREATE FUNCTION belfry.ack(
    lease uuid, message_ids uuid[] DEFAULT NULL, status text DEFAULT 'completed', error text DEFAULT NULL, retry_after interval DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_status smallint := CASE ack.status WHEN 'completed' THEN 1 WHEN 'success' THEN 1 WHEN 'failed' THEN 2 WHEN 'dlq' THEN 3 WHEN 'retry' THEN 4 END;
    v_pause bigint := extract(epoch FROM retry_after) * 1000;
    v_held bigint[]; -- the given messages that the lease still holds
    v_acked bigint[];
    k record;
    r record;
BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. If belfry.pop returned no rows, there is nothing to acknowledge.';
    ELSIF v_status IS NULL THEN
        RAISE EXCEPTION 'the status % is not known', quote_nullable(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''completed'', ''failed'', ''retry'' or ''dlq''.';
    ELSIF retry_after IS NOT NULL AND v_status NOT IN (2, 4) OR v_pause NOT BETWEEN 0 AND 31622400000 THEN
        RAISE EXCEPTION 'retry_after is % with the status %', retry_after, quote_literal(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give 0 to 366 days, and only with the status ''failed'' or ''retry''.';
    END IF;
    PERFORM convert_to(error, 'UTF8'); -- fails here, so that the list of dead letters cannot fail
    PERFORM belfry.check_lease(lease);
    -- If several cursors have the lease, the HTTP API created it: a lease of belfry.pop has one cursor.
    IF (SELECT count(*) FROM belfry.cursor c WHERE c.lease_id = ack.lease) > 1 THEN
        RAISE EXCEPTION 'lease % covers several partitions', lease USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The HTTP API created the lease. Acknowledge the messages through the HTTP API.';
    END IF;
    SELECT c.partition_id, c.group_id, c.lease_until > clock_timestamp() AS live, c.lease_end, c.committed, c.skip
      INTO k
      FROM belfry.cursor c
     WHERE c.lease_id = ack.lease
     LIMIT 1
       FOR NO KEY UPDATE;
    IF k.live IS NOT TRUE THEN
        PERFORM belfry.raise_lease_lost(lease);
    END IF;
    SELECT array_agg(h.seq ORDER BY h.seq) INTO v_held
      FROM (SELECT m.seq, m.id FROM belfry.message m
             WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq <= k.lease_end AND (k.skip IS NULL OR NOT m.seq <@ k.skip)
            UNION ALL
            SELECT d.seq, (SELECT m.id FROM belfry.message m WHERE m.partition_id = k.partition_id AND m.seq = d.seq)
              FROM belfry.redrive d
             WHERE k.lease_end < 0 AND d.partition_id = k.partition_id AND d.group_id = k.group_id AND d.lease_id = ack.lease) AS h
     WHERE message_ids IS NULL OR h.id = ANY (message_ids);
    -- An ack of the last message completes all. The message at the end of the lease may be deleted.
    v_acked := CASE WHEN v_status > 1 OR k.lease_end < 0 THEN v_held
                    WHEN message_ids IS NULL THEN ARRAY[k.lease_end]
                    ELSE v_held[cardinality(v_held):] END;
    IF v_acked IS NULL THEN
        RETURN 0;
    END IF;
    SELECT bool_or(a.verdict = 1) AS lost, bool_or(a.item = 2) AS found, bool_or(a.ended_by IS NOT NULL) AS released,
           bool_or(a.gives_room) AS gives_room INTO r
      FROM (SELECT p.id, p.uid FROM belfry.partition p
             WHERE p.id >= k.partition_id AND p.id <= k.partition_id
             ORDER BY p.id DESC LIMIT 1) AS p
      JOIN belfry.consumer_group g ON g.id = k.group_id
     CROSS JOIN LATERAL (SELECT ARRAY[cardinality(v_acked)] AS n) AS e
     CROSS JOIN LATERAL belfry.apply_acks(
            ARRAY[p.id], ARRAY[p.uid], ARRAY[g.name], e.n, array_fill(1, e.n), v_acked, array_fill(ack.lease, e.n),
            array_fill(v_status, e.n), array_fill(convert_to(error, 'UTF8'), e.n),
            array_fill(v_pause, e.n), NULL, true, false,
            CASE WHEN v_status > 1 THEN array_fill('the SQL role ' || session_user, e.n) END) AS a;
    IF r.lost OR r.found IS NOT TRUE THEN -- the lease has just ended, or the group is being deleted
        PERFORM belfry.raise_lease_lost(lease);
    ELSIF r.released THEN
        PERFORM belfry.announce_ready(k.group_id, k.partition_id);
        IF r.gives_room THEN
            PERFORM belfry.announce_room(k.group_id);
        END IF;
    END IF;
    RETURN coalesce(cardinality(v_held), 0);
END $$;
REVOKE ALL ON FUNCTION belfry.ack(uuid, uuid[], text, text, interval) FROM PUBLIC;
