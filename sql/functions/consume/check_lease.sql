-- Raises BF010 if the role of the session may not consume the queue of the lease as its group. A lease
-- that never existed causes the same error. The function takes no locks, so it never waits.
CREATE FUNCTION belfry.check_lease(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM belfry.queue_grant k WHERE k.kind = 'consume') AND EXISTS (
        SELECT FROM belfry.cursor c
          JOIN belfry.consumer_group g ON g.id = c.group_id
          JOIN belfry.queue q ON q.id = g.queue_id
         WHERE c.lease_id = p_lease AND NOT belfry.may_consume(q.name, g.name))
    THEN
        PERFORM belfry.raise_lease_lost(p_lease);
    END IF;
END $$;
