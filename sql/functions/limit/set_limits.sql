-- Sets the limits of a group in a queue, or removes them if p_limits is NULL. With the group '' they are the default of the
-- queue. A group may have limits before its first pop. queue_id is NULL if the queue does not exist. before and after are the
-- limits in the row, NULL without a row. Limits that change nothing write nothing.
--
-- limits_id of a group is always the row in force, for these reasons:
--
--   1. This function and the registration of a group lock the queue, so each sees what the other has committed.
--   2. A registration with an older snapshot fails, because this function has updated the row of the queue.
--   3. This function refuses to run with an older snapshot.
CREATE FUNCTION belfry.set_limits(
    p_queue text, p_group text, p_limits json,
    OUT changed boolean, OUT queue_id bigint, OUT before json, OUT after json
) LANGUAGE plpgsql SET synchronous_commit = on SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    l belfry.group_limit := belfry.read_limits(p_limits);
    v_old belfry.group_limit; -- the row
    v_was belfry.group_limit; -- the row in force for the groups that change
    v_is belfry.group_limit;
    k record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'limits cannot change in a transaction with the isolation level %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'active_sql_transaction', HINT = 'Use a transaction with the isolation level READ COMMITTED.';
    END IF;
    UPDATE belfry.queue q SET name = q.name WHERE q.name = p_queue AND q.deleted_at IS NULL RETURNING q.id INTO queue_id;
    IF queue_id IS NULL THEN
        RETURN;
    END IF;
    SELECT o.* INTO v_old FROM belfry.group_limit o WHERE o.queue_id = set_limits.queue_id AND o.group_name = p_group;
    before := CASE WHEN v_old.id IS NOT NULL THEN belfry.limits_json(v_old) END;
    after := CASE WHEN p_limits IS NOT NULL THEN belfry.limits_json(l) END;
    IF p_group = '' AND after::text = '{}' THEN
        after := NULL;
    END IF;
    changed := before::text IS DISTINCT FROM after::text;
    IF NOT changed THEN
        RETURN;
    END IF;
    SELECT o.* INTO v_was FROM belfry.group_limit o WHERE o.id = belfry.limits_of(set_limits.queue_id, p_group);
    IF after IS NULL THEN
        DELETE FROM belfry.group_limit o WHERE o.id = v_old.id;
    ELSIF v_old.id IS NULL THEN
        INSERT INTO belfry.group_limit (
            queue_id, group_name,
            concurrency, rate_messages, rate_per, rate_burst, tenant_concurrency, tenant_rate_messages,
            tenant_rate_per, tenant_rate_burst, fair, breaker_failures, breaker_share, breaker_window, breaker_minimum,
            breaker_pause, breaker_pause_max, on_exhausted)
        VALUES (
            set_limits.queue_id, p_group,
            l.concurrency, l.rate_messages, l.rate_per, l.rate_burst, l.tenant_concurrency, l.tenant_rate_messages,
            l.tenant_rate_per, l.tenant_rate_burst, l.fair, l.breaker_failures, l.breaker_share, l.breaker_window,
            l.breaker_minimum, l.breaker_pause, l.breaker_pause_max, l.on_exhausted);
    ELSE
        UPDATE belfry.group_limit o SET (
            concurrency, rate_messages, rate_per, rate_burst, tenant_concurrency, tenant_rate_messages,
            tenant_rate_per, tenant_rate_burst, fair, breaker_failures, breaker_share, breaker_window, breaker_minimum,
            breaker_pause, breaker_pause_max, on_exhausted, changed_at) = (
            l.concurrency, l.rate_messages, l.rate_per, l.rate_burst, l.tenant_concurrency, l.tenant_rate_messages,
            l.tenant_rate_per, l.tenant_rate_burst, l.fair, l.breaker_failures, l.breaker_share, l.breaker_window,
            l.breaker_minimum, l.breaker_pause, l.breaker_pause_max, l.on_exhausted, clock_timestamp())
         WHERE o.id = v_old.id;
    END IF;
    SELECT o.* INTO v_is FROM belfry.group_limit o WHERE o.id = belfry.limits_of(set_limits.queue_id, p_group);
    FOR k IN
        SELECT g.id FROM belfry.consumer_group g
         WHERE g.queue_id = set_limits.queue_id
           AND CASE WHEN p_group <> '' THEN g.name = p_group ELSE NOT EXISTS (
                   SELECT FROM belfry.group_limit o WHERE o.queue_id = g.queue_id AND o.group_name = g.name) END
         ORDER BY g.id
    LOOP
        UPDATE belfry.consumer_group g SET limits_id = v_is.id WHERE g.id = k.id AND g.limits_id IS DISTINCT FROM v_is.id;
        PERFORM belfry.empty_buckets(k.id, v_was, v_is);
        IF v_was.concurrency IS NULL AND v_is.concurrency IS NOT NULL THEN
            PERFORM belfry.register_leases(k.id, v_is.concurrency);
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION belfry.set_limits(text, text, json) FROM PUBLIC;
