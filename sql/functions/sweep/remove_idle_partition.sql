-- Deletes a partition and its cursors if it has no message, no dead letter and no state of a stream, and
-- got no push for p_idle. Returns whether the partition was deleted. While a group joins the queue, no
-- partition is deleted, because join_page may be creating a cursor.
--
-- Locks the queue (shared, so no group can be registered), then the partition, then its cursors. A push
-- that waits for the lock finds no partition, looks up the name again, and creates a new partition. A
-- claim or an ack finds no cursor.
CREATE FUNCTION belfry.remove_idle_partition(p_partition bigint, p_idle interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint;
    v_tenant bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT q.id INTO v_queue
      FROM belfry.queue q
     WHERE q.id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = p_partition) AND q.deleted_at IS NULL
       FOR SHARE;
    IF NOT FOUND OR EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.joined_upto IS NOT NULL) THEN
        RETURN false;
    END IF;
    PERFORM p.id FROM belfry.partition p
      WHERE p.id = p_partition AND NOT p.closed AND coalesce(p.last_push_at, p.created_at) <= clock_timestamp() - p_idle
        FOR UPDATE;
    IF NOT FOUND
       OR EXISTS (SELECT 1 FROM belfry.message m WHERE m.partition_id = p_partition)
       OR EXISTS (SELECT 1 FROM belfry.dead_letter d WHERE d.partition_id = p_partition)
       OR EXISTS (SELECT 1 FROM belfry.stream_state s WHERE s.partition_id = p_partition) THEN
        RETURN false;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR UPDATE;
    DELETE FROM belfry.cursor c WHERE c.partition_id = p_partition;
    DELETE FROM belfry.redrive r WHERE r.partition_id = p_partition;
    DELETE FROM belfry.partition p WHERE p.id = p_partition RETURNING p.tenant_id INTO v_tenant;
    IF v_tenant IS NOT NULL THEN
        PERFORM belfry.remove_idle_tenant(v_tenant);
    END IF;
    RETURN true;
END $$;
