-- Reports whether a row of belfry.group_limit has a breaker. A breaker without breaker_failures and breaker_share opens only
-- for a consumer that asks for a pause, and for an operator.
CREATE FUNCTION belfry.has_breaker(p_limits bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT num_nonnulls(l.breaker_failures, l.breaker_share, l.breaker_window, l.breaker_minimum, l.breaker_pause, l.breaker_pause_max) > 0
          FROM belfry.group_limit l WHERE l.id = p_limits), false)
$$;
