-- Raises BF011: the queue seals its payloads, and the database has no key.
CREATE FUNCTION belfry.raise_sealed(p_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'queue % seals its payloads, and the database has no key', quote_literal(p_queue) USING ERRCODE = 'BF011',
        HINT = 'Consume it through the HTTP API.';
END $$;
