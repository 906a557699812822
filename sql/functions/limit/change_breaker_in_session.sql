-- Runs belfry.open_breaker and belfry.close_breaker: changes a breaker in a SQL session, writes a row of the audit, and
-- wakes waiting requests.
CREATE FUNCTION belfry.change_breaker_in_session(p_queue text, p_group text, p_open boolean, p_pause interval, p_reason text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
    v record;
BEGIN
    IF p_pause <= interval '0' OR p_pause > interval '24 hours' THEN
        RAISE EXCEPTION 'the pause is %', p_pause USING ERRCODE = 'invalid_parameter_value', HINT = 'Give more than 0 and at most 24 hours.';
    END IF;
    v := belfry.change_breaker(p_queue, p_group, p_open, p_pause, p_reason);
    IF v.group_id IS NULL THEN
        RAISE EXCEPTION 'queue % or its consumer group % does not exist', quote_nullable(p_queue), quote_nullable(p_group)
            USING ERRCODE = 'undefined_object';
    ELSIF NOT v.configured THEN
        RAISE EXCEPTION 'consumer group % of queue % has no breaker', quote_nullable(p_group), quote_nullable(p_queue)
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Set the limit breaker of the group, or use belfry.pause.';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
    VALUES (belfry.uuid_v7(), belfry.calling_role(), 'sql', gen_random_uuid()::text,
            CASE WHEN p_open THEN 'breaker.open' ELSE 'breaker.close' END, p_queue, p_group,
            CASE WHEN p_open THEN json_build_object('by', 'operator', 'reason', p_reason, 'until', v.until) ELSE '{"by":"operator"}' END,
            json_build_object('changed', v.changed::integer), 'ok');
    IF NOT p_open AND pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
        PERFORM pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000;all');
    END IF;
    RETURN v.changed;
END $$;
REVOKE ALL ON FUNCTION belfry.change_breaker_in_session(text, text, boolean, interval, text) FROM PUBLIC;
