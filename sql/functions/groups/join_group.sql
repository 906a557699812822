-- Registers a consumer group at its first pop: for every partition, or only for p_partition. A stored
-- mode and start of the group, even if the group was deleted, override p_mode and p_start. Mode 'new'
-- starts at p_start or now. joining is true until belfry.join_page has created the cursors of all
-- partitions. The cursor of p_partition exists after the call.
--
-- Returns no row for an unknown queue. The registration locks the queue with FOR NO KEY UPDATE until the
-- commit, so no partition is created. A wake of the partitions in unready must follow the commit.
CREATE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, joining boolean, unready bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue bigint;
    v_group belfry.consumer_group;
    v_partitions bigint[];
    v_start timestamptz := CASE p_mode WHEN 'new' THEN coalesce(p_start, clock_timestamp()) WHEN 'timestamp' THEN p_start END;
BEGIN
    SELECT q.id INTO v_queue FROM belfry.queue q WHERE q.name = p_queue AND q.deleted_at IS NULL;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group;
    unready := '{}';
    IF NOT coalesce(v_group.whole_queue, false) THEN
        SELECT q.id INTO v_queue FROM belfry.queue q
         WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue, joined_upto, limits_id)
        VALUES (v_queue, p_group, p_mode, v_start, p_partition IS NULL, CASE WHEN p_partition IS NULL THEN '' END,
                belfry.limits_of(v_queue, p_group))
        ON CONFLICT (queue_id, name) DO NOTHING;
        SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group;
        IF p_partition IS NULL AND NOT v_group.whole_queue THEN
            UPDATE belfry.consumer_group g
               SET whole_queue = true, joined_upto = '',
                   mode = CASE WHEN g.kept THEN g.mode ELSE p_mode END,
                   start_at = CASE WHEN g.kept THEN g.start_at ELSE v_start END
             WHERE g.id = v_group.id
            RETURNING g.* INTO v_group;
        END IF;
    END IF;
    IF p_partition IS NOT NULL THEN
        v_partitions := ARRAY (SELECT p.id FROM belfry.partition p WHERE p.queue_id = v_queue AND p.name = p_partition);
        IF NOT v_group.whole_queue THEN
            unready := belfry.create_cursors(v_group.id, v_partitions, CASE WHEN v_group.kept THEN v_group.start_at ELSE v_start END);
        ELSIF v_group.joined_upto IS NOT NULL THEN
            SELECT j.unready INTO unready FROM belfry.join_page(v_group.id, 1, v_partitions) AS j;
        END IF;
    END IF;
    RETURN QUERY SELECT v_queue, v_group.id, v_group.joined_upto IS NOT NULL, unready;
END $$;
