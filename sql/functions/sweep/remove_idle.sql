-- Removes a partition that holds no message and into which nothing was pushed
-- for p_idle, with its cursors. Says whether it did. The queue is locked
-- (shared) against a group that joins, then the partition: a push that waits for
-- it finds it gone, looks its name up again and makes a new one. A claim, an ack
-- and a lease find no cursor.
CREATE FUNCTION belfry.remove_idle(p_partition bigint, p_idle interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT q.id INTO v_queue
      FROM belfry.queue q
     WHERE q.id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = p_partition) AND q.deleted_at IS NULL
       FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM p.id FROM belfry.partition p
      WHERE p.id = p_partition AND NOT p.closed AND coalesce(p.last_push_at, p.created_at) <= clock_timestamp() - p_idle
        FOR UPDATE;
    IF NOT FOUND
       OR EXISTS (SELECT 1 FROM belfry.message m WHERE m.partition_id = p_partition)
       OR EXISTS (SELECT 1 FROM belfry.dead_letter d WHERE d.partition_id = p_partition) THEN
        RETURN false;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR UPDATE;
    DELETE FROM belfry.cursor c WHERE c.partition_id = p_partition;
    DELETE FROM belfry.redrive r WHERE r.partition_id = p_partition;
    DELETE FROM belfry.partition p WHERE p.id = p_partition;
    RETURN true;
END $$;
