-- Creates cursors of a group that joins its queue, in the next p_limit partitions by name, or in
-- p_partitions. The row of the group stores the last name, so any session can continue the join. done:
-- every partition has its cursor, or the group does not join. A wake of unready must follow the commit.
--
-- A partition that was created after the group was registered has its cursor already: open_partitions
-- creates both in one transaction. So only older partitions lack a cursor.
--
-- Locks the queue (shared, so pushes to new partitions do not wait and the queue cannot be deleted),
-- then the group, so one session at a time creates its cursors. Each call writes the group, so a
-- transaction with an older snapshot fails and creates no second cursor.
CREATE FUNCTION belfry.join_page(p_group bigint, p_limit bigint, p_partitions bigint[] DEFAULT NULL)
RETURNS TABLE (done boolean, unready bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    v_group belfry.consumer_group;
    v_ids bigint[] := p_partitions;
    v_last text;
BEGIN
    done := true;
    unready := '{}';
    PERFORM q.id FROM belfry.queue q
      WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = p_group AND g.joined_upto IS NOT NULL)
        AND q.deleted_at IS NULL
        FOR SHARE;
    IF FOUND THEN
        SELECT g.* INTO v_group FROM belfry.consumer_group g
         WHERE g.id = p_group AND g.joined_upto IS NOT NULL
           FOR NO KEY UPDATE;
    END IF;
    IF v_group.id IS NOT NULL THEN
        done := false;
        v_last := v_group.joined_upto;
        IF p_partitions IS NULL THEN
            -- The next page starts with the last name of this page, because a name may be empty.
            SELECT array_agg(s.id), max(s.name), count(*) <= p_limit INTO v_ids, v_last, done
              FROM (SELECT p.id, p.name FROM belfry.partition p
                     WHERE p.queue_id = v_group.queue_id AND p.name >= v_group.joined_upto
                     ORDER BY p.queue_id, p.name
                     LIMIT p_limit + 1) AS s;
        END IF;
        unready := belfry.create_cursors(p_group, v_ids, v_group.start_at);
        UPDATE belfry.consumer_group g SET joined_upto = CASE WHEN NOT done THEN v_last END WHERE g.id = p_group;
    END IF;
    RETURN NEXT;
END $$;
