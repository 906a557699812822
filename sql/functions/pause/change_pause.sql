-- Pauses or resumes a queue, one partition of it (p_partition), or one of its groups (p_group).
-- Returns whether that changed anything, or NULL if it does not exist.
--
-- A queue or a group has a flag that every pop reads, and no cursor is written. A partition has a flag
-- too, and ready_at of its cursors is NULL while it is paused. Otherwise a pop from any partition
-- would find the paused partitions first. A cursor that another session has locked keeps its ready_at.
-- The first pop that finds it sets it to NULL.
--
-- A resume of a partition waits up to 5 seconds for each cursor that another session has locked. Such a
-- session may have read that the partition is paused.
CREATE FUNCTION belfry.change_pause(p_queue text, p_partition text, p_group text, p_paused boolean) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' SET synchronous_commit = on AS $$
DECLARE
    v_queue bigint;
    v_id bigint;
    v_changed boolean;
BEGIN
    SELECT q.id INTO v_queue FROM belfry.queue q WHERE q.name = p_queue AND q.deleted_at IS NULL;
    IF p_group IS NOT NULL THEN
        SELECT g.id INTO v_id FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group;
        UPDATE belfry.consumer_group g SET paused = p_paused WHERE g.id = v_id AND g.paused <> p_paused;
        v_changed := FOUND;
    ELSIF p_partition IS NULL THEN
        v_id := v_queue;
        UPDATE belfry.queue q SET paused = p_paused WHERE q.id = v_id AND q.paused <> p_paused;
        v_changed := FOUND;
    ELSE
        SELECT p.id INTO v_id FROM belfry.partition p
         WHERE p.queue_id = v_queue AND p.name = p_partition AND NOT p.closed FOR NO KEY UPDATE;
        UPDATE belfry.partition p SET paused = p_paused WHERE p.id = v_id AND p.paused <> p_paused;
        v_changed := FOUND;
        IF p_paused THEN
            UPDATE belfry.cursor c SET ready_at = NULL
              FROM (SELECT k.ctid AS at FROM belfry.cursor k
                     WHERE k.partition_id = v_id AND k.ready_at IS NOT NULL
                     ORDER BY k.group_id
                       FOR NO KEY UPDATE SKIP LOCKED) AS held
             WHERE c.ctid = held.at;
        ELSE
            PERFORM FROM belfry.cursor c WHERE c.partition_id = v_id ORDER BY c.group_id FOR NO KEY UPDATE;
            PERFORM FROM belfry.wake_partitions(ARRAY[v_id]);
        END IF;
    END IF;
    RETURN CASE WHEN v_id IS NOT NULL THEN v_changed END;
END $$;
REVOKE ALL ON FUNCTION belfry.change_pause(text, text, text, boolean) FROM PUBLIC;
