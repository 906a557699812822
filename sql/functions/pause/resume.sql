-- Ends a pause. The commit wakes waiting pops and SQL consumers. Returns false if the target is not
-- paused.
CREATE FUNCTION belfry.resume(queue text, partition text DEFAULT NULL, consumer_group text DEFAULT NULL) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_pause_in_session($1, $2, $3, false, NULL)
$$;
REVOKE ALL ON FUNCTION belfry.resume(text, text, text) FROM PUBLIC;
