-- Notifies the sequencer that rows wait in the inbox. A session with belfry.notify = off should call it
-- after its last commit, or from time to time.
CREATE FUNCTION belfry.wake() RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.pg_notify('belfry_inbox', '')
$$;
