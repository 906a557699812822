-- Decides about the message at which a partition is blocked for a consumer group (onExhausted 'block'), and writes a
-- row of the audit. action: 'retry' delivers the message at once, 'deadLetter' makes it a dead letter, 'skip' counts
-- it as done. Returns false if the partition is not blocked. Waits up to 5 seconds for a cursor that another session
-- has locked.
CREATE FUNCTION belfry.unblock(queue text, partition text, consumer_group text, action text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v record;
BEGIN
    IF action IS NULL OR action NOT IN ('retry', 'deadLetter', 'skip') THEN
        RAISE EXCEPTION 'the action % is not known', quote_nullable(action) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''retry'', ''deadLetter'' or ''skip''.';
    END IF;
    v := belfry.unblock_partition(queue, partition, consumer_group, action, true);
    IF NOT v.known THEN
        RAISE EXCEPTION 'queue %, its partition % or its consumer group % does not exist, or the group has not read the partition',
            quote_nullable(queue), quote_nullable(partition), quote_nullable(consumer_group) USING ERRCODE = 'undefined_object';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, partition, consumer_group, parameters, counts, result)
    VALUES (belfry.uuid_v7(), belfry.calling_role(), 'sql', gen_random_uuid()::text, 'delivery.unblock', queue, partition, consumer_group,
            json_build_object('action', action, 'transactionId', v.transaction_id), json_build_object('changed', v.unblocked::integer),
            CASE WHEN v.unblocked THEN 'ok' ELSE 'conflict' END);
    IF v.unblocked THEN
        PERFORM belfry.announce_ready(v.group_id, v.partition_id);
    END IF;
    RETURN v.unblocked;
END $$;
REVOKE ALL ON FUNCTION belfry.unblock(text, text, text, text) FROM PUBLIC;
