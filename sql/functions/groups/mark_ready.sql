-- Marks the new cursors of a group in p_partitions ready although they may be empty, and announces them.
-- A push that committed meanwhile may have missed the cursors, and no wake can follow the commit of a
-- SQL session. A pop finds the messages of such a push.
CREATE FUNCTION belfry.mark_ready(p_group bigint, p_partitions bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    FOREACH v_id IN ARRAY coalesce(p_partitions, '{}') LOOP
        UPDATE belfry.cursor c
           SET ready_at = clock_timestamp()
         WHERE c.partition_id = v_id AND c.group_id = p_group AND c.ready_at IS NULL AND c.start_at IS NULL;
        IF FOUND THEN
            PERFORM belfry.announce_ready(p_group, v_id);
        END IF;
    END LOOP;
END $$;
