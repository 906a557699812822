-- Returns the delay before a message that failed p_failures times is delivered again: p_delay
-- milliseconds after the first failure, multiplied by p_backoff for each further failure, at most p_max,
-- and then varied by up to 20 % at random. NULL: no delay.
CREATE FUNCTION belfry.retry_delay(p_delay bigint, p_backoff bigint, p_max bigint, p_failures integer) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(p_delay * power(greatest(p_backoff, 1), least(p_failures - 1, 40)), greatest(p_max, p_delay))
           * (0.8 + 0.4 * random()) * interval '1 millisecond' WHERE p_delay > 0
$$;
