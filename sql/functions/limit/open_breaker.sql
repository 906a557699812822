-- Opens the breaker of a group: no pop of the group returns messages for the time pause (NULL: the pause of the breaker). Then one
-- lease passes, and its completed ack closes the breaker. Acks continue. The group needs a breaker in its limits. Returns true.
CREATE FUNCTION belfry.open_breaker(queue text, consumer_group text, pause interval DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_breaker_in_session($1, $2, true, $3, $4)
$$;
REVOKE ALL ON FUNCTION belfry.open_breaker(text, text, interval, text) FROM PUBLIC;
