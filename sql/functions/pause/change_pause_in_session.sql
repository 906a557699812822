-- Runs belfry.pause and belfry.resume: changes a pause in a SQL session and writes a row of the audit.
--
-- No wake can follow the commit of the session. So a resume of a partition locks all its cursors, and
-- makes them ready under the locks. Pushes to the partition wait until the commit. The resume waits up
-- to 5 seconds for each cursor that another session has locked.
CREATE FUNCTION belfry.change_pause_in_session(p_queue text, p_partition text, p_group text, p_paused boolean, p_reason text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
    v record;
    v_id uuid := belfry.uuid_v7();
BEGIN
    IF p_partition IS NOT NULL AND p_group IS NOT NULL THEN
        RAISE EXCEPTION 'a partition and a consumer group are given' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give one of them, or none for the queue.';
    END IF;
    v := belfry.change_pause(p_queue, p_partition, p_group, p_paused, p_reason);
    IF v.changed IS NULL THEN
        RAISE EXCEPTION 'queue %, its partition % or its consumer group % does not exist', quote_nullable(p_queue), quote_nullable(p_partition),
            quote_nullable(p_group) USING ERRCODE = 'undefined_object';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, partition, consumer_group, parameters, counts, result)
    VALUES (v_id, belfry.calling_role(), 'sql', gen_random_uuid()::text,
            CASE WHEN p_paused THEN 'delivery.pause' ELSE 'delivery.resume' END, p_queue, p_partition, p_group,
            CASE WHEN p_reason IS NULL THEN '{}' ELSE json_build_object('reason', p_reason) END,
            json_build_object('changed', v.changed::integer), 'ok');
    INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, group_id, partition_id, before, after)
    SELECT v_id, 'pause', v.queue_id, v.group_id, v.partition_id, v.before, v.after WHERE v.changed;
    IF NOT p_paused THEN
        PERFORM FROM belfry.cursor c WHERE c.partition_id = v.partition_id ORDER BY c.group_id FOR NO KEY UPDATE;
        PERFORM FROM belfry.wake_partitions(ARRAY[v.partition_id]);
        IF pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
            PERFORM pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000;all');
        END IF;
    END IF;
    RETURN v.changed;
END $$;
REVOKE ALL ON FUNCTION belfry.change_pause_in_session(text, text, text, boolean, text) FROM PUBLIC;
