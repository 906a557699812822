-- Acknowledges messages that belfry.pop returned. message_ids NULL: all that the lease still holds.
-- If the lease is over, the call raises BF010. The transaction rolls back. Its effects never
-- commit beside those of another consumer. status is one of these:
--
--   completed  The messages, and all before them in the partition, are finished.
--   failed     Delivered again from the first of them on, after the queue's retryDelay. A dead
--              letter if no retry is left.
--   retry      Delivered again, without counting a failure.
--   dlq        A dead letter now.
--
-- apply_acks has the rules. Returns the number of messages of the call that the lease still held.
-- Locks the cursor.
CREATE FUNCTION belfry.ack(lease uuid, message_ids uuid[] DEFAULT NULL, status text DEFAULT 'completed', error text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_status smallint := CASE ack.status WHEN 'completed' THEN 1 WHEN 'success' THEN 1 WHEN 'failed' THEN 2 WHEN 'dlq' THEN 3 WHEN 'retry' THEN 4 END;
    v_held bigint[];
    v_acked bigint[];
    v_entries integer; -- an entry for each message, or one for all
    v_released boolean;
    k record;
    r belfry.ack_row;
BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. Where it returned none there is nothing to acknowledge.';
    ELSIF v_status IS NULL THEN
        RAISE EXCEPTION 'the status % is not known', quote_nullable(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''completed'', ''failed'', ''retry'' or ''dlq''.';
    END IF;
    PERFORM convert_to(error, 'UTF8'); -- raises an error here, and not when an operator lists dead letters
    -- belfry.pop gives each partition its own lease, so several cursors mean an HTTP lease.
    IF (SELECT count(*) FROM belfry.cursor c WHERE c.lease_id = ack.lease) > 1 THEN
        RAISE EXCEPTION 'lease % covers several partitions', lease USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The HTTP API gave it out; acknowledge it there.';
    END IF;
    SELECT c.partition_id, c.group_id, c.lease_until > clock_timestamp() AS live, c.lease_end, c.committed, coalesce(c.skip, '{}') AS skip
      INTO k
      FROM belfry.cursor c
     WHERE c.lease_id = ack.lease
     LIMIT 1
       FOR NO KEY UPDATE;
    IF k.live IS NOT TRUE THEN
        PERFORM belfry.raise_lease_lost(lease);
    ELSIF k.lease_end < 0 THEN
        SELECT array_agg(d.seq ORDER BY d.seq) INTO v_held
          FROM belfry.redrive d
         WHERE d.partition_id = k.partition_id AND d.group_id = k.group_id AND d.lease_id = ack.lease
           AND (message_ids IS NULL OR (SELECT m.id FROM belfry.message m WHERE m.partition_id = k.partition_id AND m.seq = d.seq) = ANY (message_ids));
    ELSE
        SELECT array_agg(m.seq ORDER BY m.seq) INTO v_held
          FROM belfry.message m
         WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq <= k.lease_end AND m.seq <> ALL (k.skip)
           AND (message_ids IS NULL OR m.id = ANY (message_ids));
    END IF;
    -- The end of the lease may be a message that was deleted.
    v_acked := CASE WHEN v_status = 1 AND message_ids IS NULL AND k.lease_end > 0 THEN ARRAY[k.lease_end] ELSE v_held END;
    IF v_acked IS NULL THEN
        RETURN 0;
    END IF;
    v_entries := CASE WHEN v_status = 1 THEN 1 ELSE cardinality(v_acked) END;
    FOR r IN
        SELECT a.*
          FROM (SELECT p.id, p.uid FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
          JOIN belfry.consumer_group g ON g.id = k.group_id
         CROSS JOIN LATERAL belfry.apply_acks(
                ARRAY[p.id], ARRAY[p.uid], ARRAY[g.name], ARRAY[v_entries],
                array_fill(1, ARRAY[v_entries]),
                CASE WHEN v_status = 1 THEN v_acked[cardinality(v_acked):] ELSE v_acked END,
                array_fill(ack.lease, ARRAY[v_entries]), array_fill(v_status, ARRAY[v_entries]),
                array_fill(convert_to(error, 'UTF8'), ARRAY[v_entries]),
                CASE WHEN v_status = 1 THEN ARRAY[cardinality(v_acked)] ELSE ARRAY (SELECT generate_series(1, v_entries)) END, v_acked,
                '{}', '{}', '{}', '{}', NULL, true) AS a
    LOOP
        IF r.item = 2 THEN
            v_released := r.ended_by IS NOT NULL;
        ELSIF r.verdict = 2 THEN
            PERFORM belfry.raise_lease_lost(lease); -- it ended since the check above
        END IF;
    END LOOP;
    IF v_released IS NULL THEN -- the partition or the group is being deleted
        PERFORM belfry.raise_lease_lost(lease);
    ELSIF v_released THEN
        PERFORM belfry.announce_ready(k.group_id, k.partition_id);
    END IF;
    RETURN coalesce(cardinality(v_held), 0);
END $$;
REVOKE ALL ON FUNCTION belfry.ack(uuid, uuid[], text, text) FROM PUBLIC;
