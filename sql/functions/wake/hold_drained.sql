-- Reports whether p_committed is the end of the partition, and stays the end until this transaction
-- ends: then it holds the lock that pushes take. So a cursor there, set to not ready by this
-- transaction, needs no wake after the commit. False while a push is under way. Never waits; the
-- caller must not wait for a lock after it. Pushes to the partition wait for the caller's commit, so
-- only transactions with one cursor call it.
CREATE FUNCTION belfry.hold_drained(p_partition bigint, p_committed bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_last_seq bigint;
BEGIN
    SELECT p.last_seq INTO v_last_seq FROM belfry.partition p
     WHERE p.id >= p_partition AND p.id <= p_partition ORDER BY p.id DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    RETURN coalesce(v_last_seq = p_committed, false);
END $$;
