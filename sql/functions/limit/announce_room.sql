-- Announces at the commit that the limits of a group have room, because a lease ends; see belfry.announce_ready.
CREATE FUNCTION belfry.announce_room(p_group bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) IN ('off', 'false', 'no', '0')
       OR pg_notification_queue_usage() >= 0.97 THEN -- a full queue would fail the transaction
        RETURN;
    END IF;
    PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/-1@0', p_group));
END $$;
