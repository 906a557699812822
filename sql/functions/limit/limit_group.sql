-- Sets the limits of a consumer group in a queue, or removes them if limits is NULL. Without a consumer_group they are the default of
-- the queue, for the groups without limits of their own. Returns false if they were so already. The commit wakes waiting pops and SQL
-- consumers. docs/flow.md describes the limits.
CREATE FUNCTION belfry.limit_group(queue text, consumer_group text, limits json) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v record;
    v_id uuid := belfry.uuid_v7();
    v_group text := nullif($2, '');
BEGIN
    IF octet_length(v_group) > 255 OR v_group IN ('.', '..') THEN
        RAISE EXCEPTION 'the name of the consumer group is not valid' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A name has 1 to 255 bytes, and is not . or ..';
    END IF;
    v := belfry.set_limits($1, coalesce(v_group, ''), $3);
    IF v.queue_id IS NULL THEN
        RAISE EXCEPTION 'queue % does not exist', quote_nullable($1) USING ERRCODE = 'undefined_object',
            HINT = 'Create it with the first push, or with POST /api/v1/configure.';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
    VALUES (v_id, belfry.calling_role(), 'sql', gen_random_uuid()::text, CASE WHEN v.after IS NULL THEN 'limits.remove' ELSE 'limits.set' END, $1, v_group,
            CASE WHEN v.after IS NULL THEN '{}' ELSE json_build_object('limits', v.after) END, json_build_object('changed', v.changed::integer), 'ok');
    IF v.changed THEN
        INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, before, after)
        VALUES (v_id, 'limits', v.queue_id, coalesce(v.before, 'null'), coalesce(v.after, 'null'));
    END IF;
    IF v.changed AND pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
        PERFORM pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000;all');
    END IF;
    RETURN v.changed;
END $$;
REVOKE ALL ON FUNCTION belfry.limit_group(text, text, json) FROM PUBLIC;
