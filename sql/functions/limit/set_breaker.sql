-- Opens the breaker of a group until p_until, and reports whether it did. An open breaker stays open until the later of both
-- instants. p_openings is the number of openings since the breaker was closed. p_probe: the live probe stays the probe. Otherwise
-- its result does not matter any more. Writes a row of the audit, unless an operator opens it: the request has its own row.
--
-- If another session has just locked or created the row, the call does nothing: that session changes the breaker.
CREATE FUNCTION belfry.set_breaker(
    p_group bigint, p_at timestamptz, p_until timestamptz, p_openings integer, p_probe boolean, p_by text, p_reason text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF belfry.lock_breaker(p_group) THEN
        UPDATE belfry.breaker b
           SET opened_at = coalesce(b.opened_at, p_at), open_until = greatest(p_until, CASE WHEN b.opened_at IS NOT NULL THEN b.open_until END), openings = p_openings,
               opened_by = p_by, reason = p_reason, probe_partition = CASE WHEN p_probe THEN b.probe_partition END,
               probe_lease = CASE WHEN p_probe THEN b.probe_lease END
         WHERE b.group_id = p_group;
    ELSIF EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group) OR NOT belfry.new_limit_row(3, p_group, 0, 0) THEN
        RETURN false;
    ELSE
        INSERT INTO belfry.breaker (group_id, opened_at, open_until, openings, opened_by, reason)
        VALUES (p_group, p_at, p_until, p_openings, p_by, p_reason);
    END IF;
    IF p_by <> 'operator' THEN
        PERFORM belfry.audit_breaker(p_group, 'breaker.open', json_build_object('reason', p_reason, 'by', p_by, 'until', p_until));
    END IF;
    RETURN true;
END $$;
