-- Returns the instant until which the breaker of a group refuses claims, or NULL if it is closed or lets a lease pass now.
-- It locks nothing.
--
-- While a probe is live, it is the end of the probe's lease. If the lease has ended without an ack, the probe has
-- failed: the breaker is open for the next longer pause after that instant. This follows from the cursor, so it
-- needs no write. The claim of the next probe counts that opening.
CREATE FUNCTION belfry.breaker_until(p_group bigint, p_limits bigint, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    b record;
BEGIN
    SELECT k.open_until, k.openings, k.probe_lease, c.lease_until INTO b
      FROM belfry.breaker k
      LEFT JOIN LATERAL (
            SELECT CASE WHEN c.lease_id = k.probe_lease THEN c.lease_until END AS lease_until FROM belfry.cursor c
             WHERE c.partition_id = k.probe_partition AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1) AS c ON true
     WHERE k.group_id = p_group AND k.opened_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF b.lease_until > p_now THEN
        RETURN b.lease_until;
    ELSIF b.lease_until IS NOT NULL THEN
        b.open_until := greatest(b.open_until, b.lease_until + (
            SELECT belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, b.openings + 1) FROM belfry.group_limit l WHERE l.id = p_limits));
    END IF;
    RETURN CASE WHEN b.open_until > p_now THEN b.open_until END;
END $$;
