-- Registers a consumer group on a queue. Without this call, the first pop of the group registers it.
-- mode 'all' starts at the first message, 'new' after the newest message, 'timestamp' after the last
-- message stored at or before start_at. An existing group keeps its mode and start.
--
-- Locks the queue until the end of the transaction, so no session can create a partition of the queue
-- meanwhile. So commit right after the call. The call creates 2,000 cursors, and pops create the others.
CREATE FUNCTION belfry.subscribe(queue text, consumer_group text, mode text DEFAULT 'all', start_at timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    PERFORM belfry.check_consumer(queue, consumer_group);
    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''all'', ''new'' or ''timestamp''.';
    ELSIF mode = 'timestamp' AND start_at IS NULL THEN
        RAISE EXCEPTION 'the subscription ''timestamp'' has no start_at' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the instant after which the group starts: belfry.subscribe(queue, consumer_group, ''timestamp'', now() - interval ''1 hour'').';
    ELSIF mode <> 'timestamp' AND start_at IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription % has a start_at', quote_literal(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give start_at only with ''timestamp''.';
    ELSIF start_at > clock_timestamp() THEN
        RAISE EXCEPTION 'start_at is in the future' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Register the group through the HTTP API, or use mode ''new''.';
    ELSIF belfry.join_in_transaction(queue, consumer_group, NULL, mode, start_at) IS NULL THEN
        RAISE EXCEPTION 'there is no queue %', quote_literal(queue) USING ERRCODE = 'undefined_object',
            HINT = 'The first message pushed to a queue creates it. The HTTP API can also create it (configure).';
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.subscribe(text, text, text, timestamptz) FROM PUBLIC;
