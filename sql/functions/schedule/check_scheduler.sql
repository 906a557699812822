-- Raises 42501 if the role of the session may not push to a queue, so it may not change a schedule of
-- the queue. Its callers are SECURITY DEFINER functions with a fixed search path.
CREATE FUNCTION belfry.check_scheduler(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF belfry.pushes_are_checked() THEN
        PERFORM belfry.check_push_grants(belfry.calling_role(), p_queues);
    END IF;
END $$;
