-- Reports whether the role of the session may consume the queue as the group. Its callers are
-- SECURITY DEFINER functions with a fixed search path.
CREATE FUNCTION belfry.may_consume(p_queue text, p_group text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM belfry.queue_grant g WHERE g.kind = 'consume')
        OR has_table_privilege(belfry.calling_role(), 'belfry.queue_grant', 'UPDATE')
        OR EXISTS (SELECT FROM belfry.queue_grant g
                    WHERE g.kind = 'consume' AND g.revoked_at IS NULL AND belfry.matches(p_queue, g.queue)
                      AND belfry.matches(p_group, g.consumer_group) AND pg_has_role(belfry.calling_role(), g.grantee, 'USAGE'));
END $$;
