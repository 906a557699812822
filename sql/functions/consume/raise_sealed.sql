-- Raises BF011: the payloads of the queue are encrypted, and the database has no key.
CREATE FUNCTION belfry.raise_sealed(p_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the payloads of queue % are encrypted, and the database has no key', quote_literal(p_queue) USING ERRCODE = 'BF011',
        HINT = 'Consume the queue through the HTTP API.';
END $$;
