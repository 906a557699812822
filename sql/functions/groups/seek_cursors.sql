-- Moves the cursors of group p_group in p_partitions (ascending) to the last message stored at or before
-- p_instant. 'infinity' means after the newest message, '-infinity' before the first message. With p_before
-- and p_after, p_instant has no meaning: the function undoes a seek that moved each cursor from p_before to
-- p_after. It moves a cursor that the seek moved forward back to p_before. If the seek moved a cursor
-- backward, the function moves the cursor forward to p_before, unless the group is already there. Leases
-- end, and attempts and failures start at 0. After a move backwards or to the same position, the group
-- receives its dead letters again. After a move forward, the cursor still skips later dead letters.
-- Returns the old and the new positions. A wake must follow the commit.
--
-- If the group still joins, its missing cursors are created first.
--
-- Locks each cursor with FOR NO KEY UPDATE. The statements are for one cursor each: the cost of one
-- UPDATE joined to a page of cursors would grow with the square of the page.
CREATE FUNCTION belfry.seek_cursors(p_partitions bigint[], p_group bigint, p_instant timestamptz, p_before bigint[] DEFAULT NULL, p_after bigint[] DEFAULT NULL)
RETURNS TABLE (moved bigint, place_before bigint, place bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_i integer := 0;
    v_id bigint;
    v_to bigint;
    k record;
    f record;
BEGIN
    PERFORM belfry.join_page(p_group, 1, p_partitions);
    FOREACH v_id IN ARRAY p_partitions LOOP
        v_i := v_i + 1;
        SELECT c.committed, c.skip, c.redrives INTO k
          FROM belfry.cursor c WHERE c.partition_id = v_id AND c.group_id = p_group FOR NO KEY UPDATE;
        CONTINUE WHEN NOT FOUND;
        -- This snapshot is newer than the lock, so last_seq is not behind committed.
        SELECT p.trimmed, p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer INTO f
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
          JOIN belfry.consumer_group g ON g.id = p_group
         WHERE p.id = v_id;
        CONTINUE WHEN NOT FOUND; -- the partition or the group is being deleted
        v_to := CASE WHEN p_before IS NOT NULL THEN
                          greatest(f.trimmed, p_before[v_i], CASE WHEN p_before[v_i] >= p_after[v_i] THEN k.committed END)
                     WHEN p_instant = '-infinity' THEN f.trimmed
                     WHEN p_instant = 'infinity' OR f.last_push_at <= p_instant THEN f.last_seq
                     ELSE belfry.seq_at(v_id, p_instant) END;
        UPDATE belfry.cursor c
           SET committed = v_to,
               skip = CASE WHEN v_to > k.committed THEN belfry.skip_beyond(k.skip, v_to) END,
               attempts = 0, failures = 0, retry_at = NULL, alone_until = NULL, start_at = NULL,
               lease_id = NULL, lease_until = NULL, lease_end = NULL,
               ready_at = belfry.ready_at(v_id, v_to, f.last_seq, f.last_push_at, f.visible_until,
                                          f.delayed_processing, f.window_buffer, NULL, k.redrives, p_group)
         WHERE c.partition_id = v_id AND c.group_id = p_group;
        moved := v_id;
        place_before := k.committed;
        place := v_to;
        RETURN NEXT;
    END LOOP;
END $$;
