-- Asks the limits of a group whether a claim may deliver up to p_want messages of the locked cursor of p_partition. room is
-- the number of messages it may deliver. next_at is set if the limits allow no further message now, and is the
-- instant at which they allow one at the latest. With p_spend the call takes the tokens of the rate. Otherwise it
-- reserves them, and belfry.spend takes them.
--
-- With a concurrency, the lease of the caller gets a place. If no lease follows, the place stays free.
CREATE FUNCTION belfry.admit(
    p_limits bigint, p_group bigint, p_partition bigint, p_lease uuid, p_want bigint, p_spend boolean, p_now timestamptz,
    OUT room bigint, OUT next_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    l record;
    v_tokens record;
BEGIN
    next_at := belfry.pass_breaker(p_group, p_limits, p_partition, p_lease, p_now);
    IF next_at IS NOT NULL THEN
        room := 0;
        RETURN;
    END IF;
    SELECT o.concurrency, o.rate_messages, o.rate_per, o.rate_burst INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    room := p_want;
    IF l.concurrency IS NOT NULL AND p_lease IS NOT NULL THEN
        next_at := belfry.take_slot(p_group, 0, l.concurrency, p_partition, p_lease, p_now);
        IF next_at IS NOT NULL THEN
            room := 0;
            RETURN;
        END IF;
    END IF;
    IF l.rate_messages IS NOT NULL THEN
        v_tokens := belfry.take_tokens(p_group, 0, l.rate_messages, l.rate_per, l.rate_burst, p_want, p_spend);
        room := v_tokens.granted;
        next_at := v_tokens.next_at;
    END IF;
END $$;
