-- Says that rows wait in the inbox: for sessions with belfry.notify = off, after
-- their last commit, or once in a while.
CREATE FUNCTION belfry.wake() RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.pg_notify('belfry_inbox', '')
$$;
