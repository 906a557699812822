-- Closes the breaker of a group and forgets the counted outcomes. Reports whether the breaker was open. The caller has
-- locked the row. A count that another session has locked is left: its outcomes belong to the new count.
CREATE FUNCTION belfry.reset_breaker(p_group bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_open boolean;
BEGIN
    UPDATE belfry.breaker b
       SET opened_at = NULL, open_until = NULL, openings = 0, reason = NULL, opened_by = NULL, probe_partition = NULL, probe_lease = NULL
     WHERE b.group_id = p_group AND b.opened_at IS NOT NULL;
    v_open := FOUND;
    UPDATE belfry.breaker_count c
       SET completed = 0, failed = 0, before_completed = 0, before_failed = 0, run = 0
     WHERE c.ctid = ANY (ARRAY(SELECT o.ctid FROM belfry.breaker_count o WHERE o.group_id = p_group FOR NO KEY UPDATE SKIP LOCKED));
    RETURN v_open;
END $$;
