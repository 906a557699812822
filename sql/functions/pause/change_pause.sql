-- Pauses or resumes a queue, one partition of the queue (p_partition), or one of its groups (p_group).
-- changed is NULL if the target does not exist. partition_id is the id of the partition.
--
-- Every claim reads the flags, and a pause writes no cursor. No message is stranded, for these reasons:
--
--   1. A pause of a queue or a group does not change ready_at. So a resume of a queue or a group needs no
--      wake, but all waiting requests must probe again after it.
--   2. In a paused partition, a claim and settle_drained set ready_at of a due cursor to NULL. Otherwise
--      every pop that names no partition would find that cursor first. A wake follows both.
--   3. A wake does nothing in a paused partition. So a wake must follow the commit of a resume of a
--      partition, as after a push. If the wake of step 2 still saw the pause, the wake of the resume
--      starts later and sees the NULL.
CREATE FUNCTION belfry.change_pause(
    p_queue text, p_partition text, p_group text, p_paused boolean, OUT changed boolean, OUT partition_id bigint
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
DECLARE
    v_queue bigint;
BEGIN
    SELECT q.id INTO v_queue FROM belfry.queue q WHERE q.name = p_queue AND q.deleted_at IS NULL;
    IF p_partition IS NOT NULL THEN
        SELECT p.paused <> p_paused, p.id INTO changed, partition_id
          FROM belfry.partition p WHERE p.queue_id = v_queue AND p.name = p_partition AND NOT p.closed FOR NO KEY UPDATE;
        UPDATE belfry.partition p SET paused = p_paused WHERE p.id = partition_id AND changed;
    ELSIF p_group IS NOT NULL THEN
        SELECT g.paused <> p_paused INTO changed
          FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group FOR NO KEY UPDATE;
        UPDATE belfry.consumer_group g SET paused = p_paused WHERE g.queue_id = v_queue AND g.name = p_group AND changed;
    ELSE
        SELECT q.paused <> p_paused INTO changed FROM belfry.queue q WHERE q.id = v_queue FOR NO KEY UPDATE;
        UPDATE belfry.queue q SET paused = p_paused WHERE q.id = v_queue AND changed;
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.change_pause(text, text, text, boolean) FROM PUBLIC;
