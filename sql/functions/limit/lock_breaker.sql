-- Locks the breaker of a group and reports whether it has the lock. It waits up to 50 ms for another session, so it
-- cannot be part of a deadlock. It returns false too if the group has no row.
CREATE FUNCTION belfry.lock_breaker(p_group bigint) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
BEGIN
    PERFORM FROM belfry.breaker b WHERE b.group_id = p_group FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    ELSIF NOT EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group) THEN
        RETURN false;
    END IF;
    PERFORM FROM belfry.breaker b WHERE b.group_id = p_group FOR NO KEY UPDATE;
    RETURN FOUND;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
