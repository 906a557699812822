-- Pauses a queue, one of its partitions, or one of its consumer groups. Pops then return nothing. Pushes
-- and acks continue. The pages and the API show the reason. Returns false if the target is paused already.
CREATE FUNCTION belfry.pause(queue text, partition text DEFAULT NULL, consumer_group text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_pause_in_session($1, $2, $3, true, $4)
$$;
REVOKE ALL ON FUNCTION belfry.pause(text, text, text, text) FROM PUBLIC;
