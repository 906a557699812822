-- Pauses or resumes a queue, one partition of the queue (p_partition), or one of its groups (p_group).
-- changed is NULL if the target does not exist. p_reason is the reason for the pause, or NULL. ids are the ids of
-- the queue, group and partition. before is the state before the change, and after is the state after it.
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
    p_queue text, p_partition text, p_group text, p_paused boolean, p_reason text,
    OUT changed boolean, OUT queue_id bigint, OUT group_id bigint, OUT partition_id bigint, OUT before json, OUT after json
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
#variable_conflict use_column
DECLARE
    v_queue bigint;
    v_reason text := CASE WHEN p_paused THEN p_reason END;
    v_before text;
BEGIN
    SELECT q.id INTO v_queue FROM belfry.queue q WHERE q.name = p_queue AND q.deleted_at IS NULL;
    IF p_partition IS NOT NULL THEN
        SELECT p.paused <> p_paused, p.id, p.pause_reason INTO changed, partition_id, v_before
          FROM belfry.partition p WHERE p.queue_id = v_queue AND p.name = p_partition AND NOT p.closed FOR NO KEY UPDATE;
        UPDATE belfry.partition p SET paused = p_paused, pause_reason = v_reason WHERE p.id = change_pause.partition_id AND change_pause.changed;
    ELSIF p_group IS NOT NULL THEN
        SELECT g.paused <> p_paused, g.id, g.pause_reason INTO changed, group_id, v_before
          FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group FOR NO KEY UPDATE;
        UPDATE belfry.consumer_group g SET paused = p_paused, pause_reason = v_reason WHERE g.id = change_pause.group_id AND change_pause.changed;
    ELSE
        SELECT q.paused <> p_paused, q.pause_reason INTO changed, v_before FROM belfry.queue q WHERE q.id = v_queue FOR NO KEY UPDATE;
        UPDATE belfry.queue q SET paused = p_paused, pause_reason = v_reason WHERE q.id = v_queue AND change_pause.changed;
    END IF;
    queue_id := v_queue;
    before := json_build_object('paused', NOT p_paused, 'reason', v_before);
    after := json_build_object('paused', p_paused, 'reason', v_reason);
END $$;
REVOKE ALL ON FUNCTION belfry.change_pause(text, text, text, boolean, text) FROM PUBLIC;
