-- Returns how long a breaker is open: p_pause, doubled for each opening after the first, and at most p_max.
CREATE FUNCTION belfry.breaker_pause(p_pause interval, p_max interval, p_openings integer) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT make_interval(secs => least(
        extract(epoch FROM coalesce(p_pause, interval '10 seconds')) * power(2::float8, least(greatest(p_openings, 1), 50) - 1),
        greatest(extract(epoch FROM coalesce(p_max, interval '10 minutes')), extract(epoch FROM coalesce(p_pause, interval '10 seconds'))))::float8)
$$;
