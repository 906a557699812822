-- Returns the limits in a row as the API shows them. A limit that is not set has no member.
CREATE FUNCTION belfry.limits_json(l belfry.group_limit) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'concurrency', l.concurrency,
        'rateLimit', CASE WHEN l.rate_messages IS NOT NULL THEN json_build_object(
            'messages', l.rate_messages, 'per', belfry.duration_text(l.rate_per), 'burst', l.rate_burst) END,
        'breaker', CASE WHEN l.breaker_pause IS NOT NULL THEN json_build_object(
            'failures', l.breaker_failures, 'share', l.breaker_share,
            'window', CASE WHEN l.breaker_share IS NOT NULL THEN belfry.duration_text(l.breaker_window) END,
            'minimum', CASE WHEN l.breaker_share IS NOT NULL THEN l.breaker_minimum END,
            'pause', belfry.duration_text(l.breaker_pause), 'pauseMax', belfry.duration_text(l.breaker_pause_max)) END,
        'onExhausted', nullif(l.on_exhausted, 'deadLetter')))
$$;
