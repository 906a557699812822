-- Says what became of messages that belfry.pop gave out; message_ids NULL: of all
-- the lease still holds. With the lease gone the transaction fails with SQLSTATE
-- BF010, so that its effects never commit beside those of another consumer.
--
--   completed  done, with everything before it in the partition
--   failed     delivered again from the first of them on, after the queue's
--              retryDelay; out of retries: a dead letter
--   retry      delivered again, and no failure is counted
--   dlq        a dead letter now
--
-- The rules are those of pkg/store (decideAck) for a call whose messages all have
-- the same status. Returns how many messages it was said of; 0: of none the lease
-- still holds.
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
    PERFORM convert_to(error, 'UTF8'); -- it is listed with those of others
    -- There is one: belfry.pop gives each partition a lease of its own.
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
    RETURN belfry.ack_log(k.partition_id, k.group_id, message_ids, status, error);
END $$;
REVOKE ALL ON FUNCTION belfry.ack(uuid, uuid[], text, text) FROM PUBLIC;
