-- Locks the partition if no push holds the lock, and never waits. Returns true if p_committed is then
-- the last seq. Pushes need the lock, so p_committed stays the last seq until this transaction ends. So a
-- cursor at p_committed needs no wake after the commit. The caller must not wait for another lock after
-- this call. Pushes to the partition wait for the commit, so only transactions with one cursor call it.
CREATE FUNCTION belfry.hold_drained(p_partition bigint, p_committed bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_last_seq bigint;
BEGIN
    SELECT p.last_seq INTO v_last_seq FROM belfry.partition p
     WHERE p.id >= p_partition AND p.id <= p_partition ORDER BY p.id DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    RETURN coalesce(v_last_seq = p_committed, false);
END $$;
