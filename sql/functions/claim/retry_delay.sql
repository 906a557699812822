-- Returns the delay before a message that failed p_failures times is delivered again. The delay
-- doubles with each failure, up to an hour, and varies by 20 % at random.
CREATE FUNCTION belfry.retry_delay(p_backoff_ms bigint, p_failures integer) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(p_backoff_ms * power(2, least(p_failures - 1, 40)), greatest(3600000, p_backoff_ms))
           * (0.8 + 0.4 * random()) * interval '1 millisecond'
$$;
