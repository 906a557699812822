-- Registers a consumer group at its first pop, and creates the cursors that it lacks: in every
-- partition, or only in p_partition. What is stored already, also from a deleted group, wins over
-- p_mode and p_start. Mode 'new' starts at p_start or now. Cursors keep a start in the future.
--
-- Returns no row for an unknown queue. Locks the queue with FOR NO KEY UPDATE, against new
-- partitions. A push that commits meanwhile may miss a new cursor, so the caller wakes the
-- partitions after the commit.
CREATE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, cursors_made bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue belfry.queue;
    v_group belfry.consumer_group;
    v_start timestamptz := CASE p_mode WHEN 'new' THEN coalesce(p_start, clock_timestamp()) WHEN 'timestamp' THEN p_start END;
    v_made bigint := 0;
BEGIN
    SELECT q.* INTO v_queue FROM belfry.queue q
     WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue)
    VALUES (v_queue.id, p_group, p_mode, v_start, p_partition IS NULL)
    ON CONFLICT (queue_id, name) DO NOTHING;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue.id AND g.name = p_group;

    IF p_partition IS NULL AND NOT v_group.whole_queue THEN
        UPDATE belfry.consumer_group g
           SET whole_queue = true,
               mode = CASE WHEN g.kept THEN g.mode ELSE p_mode END,
               start_at = CASE WHEN g.kept THEN g.start_at ELSE v_start END
         WHERE g.id = v_group.id
        RETURNING g.* INTO v_group;
    END IF;
    IF v_group.whole_queue OR v_group.kept THEN
        v_start := v_group.start_at;
    END IF;

    INSERT INTO belfry.cursor (partition_id, group_id, committed, start_at, ready_at)
    SELECT s.id, v_group.id, s.committed, CASE WHEN v_start > clock_timestamp() THEN v_start END,
           belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                           v_queue.delayed_processing, v_queue.window_buffer, v_queue.paused OR v_group.paused, NULL, NULL)
      FROM (SELECT p.id, p.last_seq, p.last_push_at, p.visible_until,
                   CASE WHEN v_start IS NULL THEN p.trimmed
                        WHEN p.last_push_at <= v_start THEN p.last_seq
                        ELSE belfry.seq_at(p.id, v_start)
                   END AS committed
              FROM belfry.partition p
             WHERE p.queue_id = v_queue.id AND (p_partition IS NULL OR p.name = p_partition)
               AND (SELECT c.group_id FROM belfry.cursor c
                     WHERE c.partition_id = p.id AND c.group_id = v_group.id) IS NULL
            OFFSET 0) s;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    RETURN QUERY SELECT v_queue.id, v_group.id, v_made;
END $$;
