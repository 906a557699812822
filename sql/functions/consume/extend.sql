-- Extends a lease to now + seconds, and never shortens it. Returns the instant at which the lease ends.
-- Raises BF010 if the lease is over, as belfry.ack does.
CREATE FUNCTION belfry.extend(lease uuid, seconds bigint) RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v_until timestamptz;
    v_group bigint;
    v_partition bigint;
BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. If belfry.pop returned no rows, there is nothing to extend.';
    ELSIF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease can be extended by 1 second to 1 year' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('seconds is %s.', coalesce(seconds::text, 'NULL')), HINT = 'A year has 31536000 seconds.';
    END IF;
    PERFORM belfry.check_lease(lease);
    -- The UPDATE reads the clock under this lock; see belfry.take_slot.
    PERFORM FROM belfry.cursor c WHERE c.lease_id = extend.lease AND c.lease_until > clock_timestamp() FOR NO KEY UPDATE;
    UPDATE belfry.cursor c
       SET lease_until = greatest(c.lease_until, clock_timestamp() + make_interval(secs => seconds)),
           ready_at = greatest(c.lease_until, clock_timestamp() + make_interval(secs => seconds))
     WHERE c.lease_id = extend.lease AND c.lease_until > clock_timestamp()
       AND EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.id = c.group_id)
    RETURNING c.lease_until, c.group_id, c.partition_id INTO v_until, v_group, v_partition;
    IF v_until IS NULL THEN
        PERFORM belfry.raise_lease_lost(lease);
    END IF;
    PERFORM belfry.announce_ready(v_group, v_partition);
    RETURN v_until;
END $$;
REVOKE ALL ON FUNCTION belfry.extend(uuid, bigint) FROM PUBLIC;
