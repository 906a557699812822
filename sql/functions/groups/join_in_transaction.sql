-- Registers a group inside the transaction of a SQL consumer, and returns its id; NULL for an
-- unknown queue. belfry.pop and belfry.subscribe call it. No wake can follow the commit of a
-- client, so each new cursor is marked ready although it may be empty. A probe finds the messages
-- that were pushed meanwhile.
CREATE FUNCTION belfry.join_in_transaction(p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_group bigint;
    v_made bigint;
    k record;
BEGIN
    SELECT j.group_id, j.cursors_made INTO v_group, v_made FROM belfry.join_group(p_queue, p_group, p_partition, p_mode, p_start) AS j;
    IF v_made > 0 THEN
        FOR k IN
            UPDATE belfry.cursor c
               SET ready_at = clock_timestamp()
             WHERE c.group_id = v_group AND c.ready_at IS NULL AND c.start_at IS NULL
               AND c.partition_id = ANY (ARRAY (
                    SELECT p.id FROM belfry.partition p
                     WHERE p.queue_id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = v_group)))
            RETURNING c.partition_id
        LOOP
            PERFORM belfry.announce_ready(v_group, k.partition_id);
        END LOOP;
    END IF;
    RETURN v_group;
END $$;
