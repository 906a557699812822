-- Returns NULL if the limits of a group let a claim deliver something now, and otherwise the instant at which they do at the
-- latest. It reads only committed rows and locks nothing, so it is for waiting requests and for pages.
CREATE FUNCTION belfry.limited_until(p_group bigint, p_limits bigint) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    l belfry.group_limit;
    v_now timestamptz := statement_timestamp();
    v_live bigint;
    v_lease_end timestamptz;
    v_next timestamptz;
BEGIN
    SELECT o.* INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    IF l.concurrency IS NOT NULL THEN
        SELECT count(*), min(c.lease_until) INTO v_live, v_lease_end
          FROM belfry.limit_slot s
         CROSS JOIN LATERAL (
                SELECT c.lease_id, c.lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c
         WHERE s.group_id = p_group AND s.tenant_id = 0 AND c.lease_id = s.lease_id AND c.lease_until > v_now;
        IF v_live >= l.concurrency THEN
            v_next := v_lease_end;
        END IF;
    END IF;
    IF l.rate_messages IS NOT NULL THEN
        v_next := greatest(v_next, (
            SELECT CASE WHEN count(*) = max(p.parts) THEN nullif(greatest(min(
                       least(b.full_at, b.taken_at + make_interval(secs => t.burst * t.token)) - make_interval(secs => (t.burst - 1) * t.token)), v_now), v_now) END
              FROM belfry.limit_bucket b
             CROSS JOIN LATERAL (SELECT belfry.bucket_parts(0, l.rate_burst) AS parts) AS p
             CROSS JOIN LATERAL (
                    SELECT l.rate_burst / p.parts + (b.part < l.rate_burst % p.parts)::integer AS burst,
                           extract(epoch FROM l.rate_per) * p.parts / l.rate_messages AS token) AS t -- the seconds for one token
             WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part < p.parts));
    END IF;
    RETURN v_next;
END $$;
