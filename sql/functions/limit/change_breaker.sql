-- Opens the breaker of a group for p_pause (NULL: the pause of the breaker), or closes it. changed is NULL if the group does not
-- exist, and configured is false if the group has no breaker. until is the end of the pause.
CREATE FUNCTION belfry.change_breaker(
    p_queue text, p_group text, p_open boolean, p_pause interval, p_reason text,
    OUT changed boolean, OUT configured boolean, OUT until timestamptz, OUT group_id bigint
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
DECLARE
    v_limits bigint;
    v_openings integer;
    v_now timestamptz := clock_timestamp();
BEGIN
    SELECT g.id, g.limits_id, belfry.has_breaker(g.limits_id) INTO change_breaker.group_id, v_limits, configured
      FROM belfry.consumer_group g
      JOIN belfry.queue q ON q.id = g.queue_id
     WHERE q.name = p_queue AND q.deleted_at IS NULL AND g.name = p_group;
    IF NOT FOUND OR NOT configured THEN
        RETURN;
    END IF;
    -- An operator waits for the lock, because the change must not be lost.
    SELECT CASE WHEN b.opened_at IS NOT NULL THEN b.openings END INTO v_openings
      FROM belfry.breaker b WHERE b.group_id = change_breaker.group_id FOR NO KEY UPDATE;
    IF p_open THEN
        until := v_now + coalesce(p_pause, (
            SELECT belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, 1) FROM belfry.group_limit l WHERE l.id = v_limits));
        IF NOT belfry.set_breaker(change_breaker.group_id, v_now, until, coalesce(v_openings, 1), false, 'operator',
                                  coalesce(p_reason, 'an operator opened the breaker'))
        THEN -- another session has created the row and has not committed yet
            RAISE EXCEPTION 'another session opens the breaker at this moment' USING ERRCODE = 'lock_not_available', HINT = 'Repeat the call.';
        END IF;
        SELECT b.open_until INTO until FROM belfry.breaker b WHERE b.group_id = change_breaker.group_id;
        changed := true;
    ELSE
        changed := belfry.reset_breaker(change_breaker.group_id);
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.change_breaker(text, text, boolean, interval, text) FROM PUBLIC;
