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
-- decideAck in pkg/store has the same rules for a call with one status. Returns the number of
-- messages that the call changed; 0: the lease holds none of them any more. Locks the cursor.
CREATE FUNCTION belfry.ack(lease uuid, message_ids uuid[] DEFAULT NULL, status text DEFAULT 'completed', error text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    k record;
BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. Where it returned none there is nothing to acknowledge.';
    ELSIF status IS NULL OR status NOT IN ('completed', 'success', 'failed', 'retry', 'dlq') THEN
        RAISE EXCEPTION 'the status % is not known', quote_nullable(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''completed'', ''failed'', ''retry'' or ''dlq''.';
    END IF;
    PERFORM convert_to(error, 'UTF8'); -- raises an error here, and not when an operator lists dead letters
    -- belfry.pop gives each partition its own lease, so several cursors mean an HTTP lease.
    IF (SELECT count(*) FROM belfry.cursor c WHERE c.lease_id = ack.lease) > 1 THEN
        RAISE EXCEPTION 'lease % covers several partitions', lease USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The HTTP API gave it out; acknowledge it there.';
    END IF;
    SELECT c.partition_id, c.group_id, c.lease_until > clock_timestamp() AS live, c.lease_end INTO k
      FROM belfry.cursor c
     WHERE c.lease_id = ack.lease
     LIMIT 1
       FOR NO KEY UPDATE;
    IF k.live IS NOT TRUE THEN
        PERFORM belfry.raise_lease_lost(lease);
    ELSIF k.lease_end < 0 THEN
        RETURN belfry.ack_redelivery(k.partition_id, k.group_id, message_ids, status, error);
    END IF;
    RETURN belfry.ack_delivery(k.partition_id, k.group_id, message_ids, status, error);
END $$;
REVOKE ALL ON FUNCTION belfry.ack(uuid, uuid[], text, text) FROM PUBLIC;
