-- How long a message rests after so many failures: twice as long after each, up to
-- an hour, a fifth more or less, as pkg/store does.
CREATE FUNCTION belfry.rest(p_backoff_ms bigint, p_failures integer) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(p_backoff_ms * power(2, least(p_failures - 1, 40)), greatest(3600000, p_backoff_ms))
           * (0.8 + 0.4 * random()) * interval '1 millisecond'
$$;
