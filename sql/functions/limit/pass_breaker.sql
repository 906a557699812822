-- Returns NULL if the breaker of a group lets the lease of the caller pass, and otherwise the instant at which a
-- claim may ask again. belfry.admit calls it under the lock of the cursor of p_partition. It never waits for another session.
--
-- A half-open breaker lets one lease pass, for these reasons:
--
--   1. The claim writes its lease into the row, and holds the lock of the row from before its check until its commit. A
--      claim that finds the row locked, or changed, is refused.
--   2. The next claim finds that lease in the cursor, and is refused while the lease is live. If the lease has
--      ended by the clock, the claim checks it under the lock of the cursor; see belfry.lease_is_over.
--   3. If the cursor has another lease or none, the probe is over without a result, for example because its answer
--      did not reach the consumer. Then the next lease passes.
--
-- A delivery with autoAck (p_lease NULL) has no result that the breaker could wait for. It counts as completed, as it
-- does for the group. So it closes a half-open breaker. Otherwise a group that only uses autoAck would stay refused for ever.
CREATE FUNCTION belfry.pass_breaker(p_group bigint, p_limits bigint, p_partition bigint, p_lease uuid, p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    b belfry.breaker;
    v_until timestamptz;
    v_lost boolean;
BEGIN
    SELECT k.* INTO b FROM belfry.breaker k WHERE k.group_id = p_group AND k.opened_at IS NOT NULL;
    IF NOT FOUND OR b.probe_partition = p_partition AND b.probe_lease = p_lease THEN
        RETURN NULL;
    END IF;
    v_until := belfry.breaker_until(p_group, p_limits, p_now);
    IF v_until IS NOT NULL THEN
        RETURN v_until;
    END IF;
    PERFORM FROM belfry.breaker k
      WHERE k.group_id = p_group AND k.opened_at = b.opened_at AND k.open_until = b.open_until
        AND k.probe_lease IS NOT DISTINCT FROM b.probe_lease AND k.probe_partition IS NOT DISTINCT FROM b.probe_partition
        FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM belfry.breaker k WHERE k.group_id = p_group AND k.opened_at IS NOT NULL) THEN
            RETURN NULL; -- it has just been closed
        END IF;
        -- Another claim has just taken the row. If it is rolled back, nobody announces that.
        RETURN least(belfry.breaker_until(p_group, p_limits, p_now), p_now + interval '1 second');
    END IF;
    IF b.probe_lease IS NOT NULL THEN
        SELECT c.lease_id = b.probe_lease INTO v_lost FROM belfry.cursor c WHERE c.partition_id = b.probe_partition AND c.group_id = p_group;
        IF v_lost AND NOT belfry.lease_is_over(b.probe_partition, p_group, b.probe_lease) THEN
            RETURN p_now + interval '1 second';
        END IF;
    END IF;
    IF p_lease IS NULL THEN
        PERFORM belfry.reset_breaker(p_group);
        PERFORM belfry.audit_breaker(p_group, 'breaker.close', '{"by":"autoAck"}');
    ELSE
        UPDATE belfry.breaker k
           SET probe_partition = p_partition, probe_lease = p_lease, openings = k.openings + coalesce(v_lost, false)::integer
         WHERE k.group_id = p_group;
        PERFORM belfry.audit_breaker(p_group, 'breaker.probe', '{}');
    END IF;
    RETURN NULL;
END $$;
