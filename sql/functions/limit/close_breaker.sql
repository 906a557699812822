-- Closes the breaker of a group and forgets its counted failures. The commit wakes waiting pops. Returns false if
-- the breaker is not open.
CREATE FUNCTION belfry.close_breaker(queue text, consumer_group text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_breaker_in_session($1, $2, false, NULL, NULL)
$$;
REVOKE ALL ON FUNCTION belfry.close_breaker(text, text) FROM PUBLIC;
