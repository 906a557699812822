-- Returns NULL if the limits of a group let a claim deliver something now, and otherwise the instant at which they do at the
-- latest. It reads only committed rows and locks nothing, so it is for waiting requests and for pages.
CREATE FUNCTION belfry.limited_until(p_group bigint, p_limits bigint) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    l belfry.group_limit;
    v_now timestamptz := statement_timestamp();
    v_next timestamptz;
BEGIN
    SELECT o.* INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    IF l.concurrency IS NOT NULL THEN
        v_next := belfry.places_full_until(p_group, 0, l.concurrency, v_now);
    END IF;
    IF l.rate_messages IS NOT NULL THEN
        v_next := greatest(v_next, (
            SELECT CASE WHEN count(*) = max(p.parts) THEN nullif(greatest(min(
                       least(b.full_at, b.taken_at + make_interval(secs => t.burst * t.token)) - make_interval(secs => (t.burst - 1) * t.token)), v_now), v_now) END
              FROM (SELECT belfry.bucket_parts(0, l.rate_burst) AS parts) AS p
             CROSS JOIN LATERAL generate_series(0, p.parts - 1) AS n(part)
             CROSS JOIN LATERAL (
                    SELECT l.rate_burst / p.parts + (n.part < l.rate_burst % p.parts)::integer AS burst,
                           extract(epoch FROM l.rate_per) * p.parts / l.rate_messages AS token) AS t -- the seconds for one token
             CROSS JOIN LATERAL (
                    SELECT b.full_at, b.taken_at FROM belfry.limit_bucket b
                     WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part >= n.part AND b.part <= n.part
                     ORDER BY b.part DESC LIMIT 1) AS b));
    END IF;
    RETURN v_next;
END $$;
