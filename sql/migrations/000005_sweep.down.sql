-- Back to a log without a beginning: what was deleted stays deleted, and its
-- place is a hole.
-- The last seq of a partition that was stored at or before an instant: the
-- place a group starts from, or seeks to. created_at never falls within a
-- partition, so it is a binary search; a hole in the log is no matter.
CREATE OR REPLACE FUNCTION belfry.seq_at(p_partition bigint, p_instant timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    lo bigint := 0;
    hi bigint;
    mid bigint;
    found_seq bigint;
    found_at timestamptz;
BEGIN
    SELECT last_seq INTO hi FROM belfry.partition WHERE id = p_partition;
    WHILE lo < hi LOOP
        mid := (lo + hi + 1) / 2;
        SELECT m.seq, m.created_at INTO found_seq, found_at
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > lo AND m.seq <= mid
         ORDER BY m.seq DESC
         LIMIT 1;
        IF found_seq IS NULL OR found_at <= p_instant THEN
            lo := mid;
        ELSE
            hi := found_seq - 1;
        END IF;
    END LOOP;
    RETURN lo;
END $$;

-- Registers a consumer group at its first pop and gives it the cursors it
-- lacks: in every partition, or in the named one. What is stored first wins;
-- later wishes for another start are ignored. Returns no row for an unknown
-- queue. New cursors may have missed a push that was committing meanwhile: the
-- caller runs wake_group after the commit.
CREATE OR REPLACE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, cursors_made bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue belfry.queue;
    v_group belfry.consumer_group;
    v_made bigint := 0;
BEGIN
    SELECT q.* INTO v_queue FROM belfry.queue q
     WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue)
    VALUES (v_queue.id, p_group, p_mode,
            CASE p_mode WHEN 'new' THEN clock_timestamp() WHEN 'timestamp' THEN p_start END,
            p_partition IS NULL)
    ON CONFLICT (queue_id, name) DO NOTHING;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue.id AND g.name = p_group;

    IF p_partition IS NULL AND NOT v_group.whole_queue THEN
        UPDATE belfry.consumer_group g
           SET whole_queue = true, mode = p_mode,
               start_at = CASE p_mode WHEN 'new' THEN clock_timestamp() WHEN 'timestamp' THEN p_start END
         WHERE g.id = v_group.id
        RETURNING g.* INTO v_group;
    END IF;

    INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at)
    SELECT s.id, v_group.id, s.committed,
           belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                           v_queue.delayed_processing, v_queue.window_buffer, v_queue.paused OR v_group.paused)
      FROM (SELECT p.id, p.last_seq, p.last_push_at, p.visible_until,
                   CASE CASE WHEN v_group.whole_queue THEN v_group.mode ELSE p_mode END
                        WHEN 'new' THEN p.last_seq
                        WHEN 'timestamp' THEN belfry.seq_at(p.id, CASE WHEN v_group.whole_queue THEN v_group.start_at ELSE p_start END)
                        ELSE 0
                   END AS committed
              FROM belfry.partition p
             WHERE p.queue_id = v_queue.id AND (p_partition IS NULL OR p.name = p_partition)
               AND (SELECT c.group_id FROM belfry.cursor c
                     WHERE c.partition_id = p.id AND c.group_id = v_group.id) IS NULL
            OFFSET 0) s;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    RETURN QUERY SELECT v_queue.id, v_group.id, v_made;
END $$;

DROP FUNCTION belfry.remove_idle(bigint, interval);
DROP FUNCTION belfry.trim(bigint, bigint, boolean, bigint, bigint);
DROP FUNCTION belfry.move_cursors(bigint, bigint, timestamptz);
DROP TABLE belfry.queue_sweep;
DROP TABLE belfry.sweep;
DROP INDEX IF EXISTS belfry.dead_letter_message;
DROP INDEX IF EXISTS belfry.queue_swept;
ALTER TABLE belfry.partition DROP COLUMN IF EXISTS swept, DROP COLUMN IF EXISTS holes, DROP COLUMN IF EXISTS trimmed;
ALTER TABLE belfry.queue DROP COLUMN IF EXISTS expire_after_seconds;
