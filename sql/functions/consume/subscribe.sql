-- Registers a consumer group on a queue. The first pop of the group would do the same. mode 'all'
-- starts at the first message, 'new' behind the newest message, 'timestamp' behind the last message
-- stored at or before start_at. An existing group keeps its subscription.
--
-- Locks the queue until the end of the transaction: no session can create a partition of it
-- meanwhile. So the call belongs in a transaction of its own. Pops create the cursors beyond 2,000.
CREATE FUNCTION belfry.subscribe(queue text, consumer_group text, mode text DEFAULT 'all', start_at timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    PERFORM belfry.check_consumer(queue, consumer_group);
    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''all'', ''new'' or ''timestamp''.';
    ELSIF mode = 'timestamp' AND start_at IS NULL THEN
        RAISE EXCEPTION 'the subscription ''timestamp'' has no start_at' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the instant behind which it starts: belfry.subscribe(queue, consumer_group, ''timestamp'', now() - interval ''1 hour'').';
    ELSIF mode <> 'timestamp' AND start_at IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription % has a start_at', quote_literal(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'start_at goes with ''timestamp'' alone.';
    ELSIF start_at > clock_timestamp() THEN
        RAISE EXCEPTION 'start_at lies in the future' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Register the group through the HTTP API, or use mode ''new''.';
    ELSIF belfry.join_in_transaction(queue, consumer_group, NULL, mode, start_at) IS NULL THEN
        RAISE EXCEPTION 'there is no queue %', quote_literal(queue) USING ERRCODE = 'undefined_object',
            HINT = 'A queue is made by the first message pushed to it, or by configuring it through the HTTP API.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.subscribe(text, text, text, timestamptz) FROM PUBLIC;
