-- Sets ready_at of every cursor that needs a wake in p_partitions, and returns those cursors with the
-- seconds until they are ready. See store/wake. A cursor with a start_at moves past the messages before
-- that instant. The first message after that instant clears start_at.
--
-- It reads the newest version of the cursor of each group. In a queue with more than 1,000 groups, most
-- cursors are ready, so it reads only the index cursor_asleep, which contains every cursor that
-- needs_wake accepts. There it also reads old versions of cursors, which a held snapshot keeps.
--
-- Locks the cursors in (partition, group) order, and checks each cursor again under its lock. Its commit
-- does not wait for the disk.
CREATE FUNCTION belfry.wake_partitions(p_partitions bigint[])
RETURNS TABLE (group_id bigint, partition_id bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_committed bigint;
    h record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR h IN
        SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id, k.group_id, k.partition_id,
               k.last_seq, k.last_push_at, k.visible_until, k.delayed_processing, k.window_buffer
          FROM (SELECT w.id AS partition_id, c.id AS group_id, p.last_seq, p.last_push_at, p.visible_until,
                       q.delayed_processing, q.window_buffer
                  FROM unnest(p_partitions) AS w(id)
                 CROSS JOIN LATERAL (
                        SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until, p.paused FROM belfry.partition p
                         WHERE p.id >= w.id AND p.id <= w.id ORDER BY p.id DESC LIMIT 1) AS p
                 CROSS JOIN LATERAL (SELECT q.delayed_processing, q.window_buffer FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
                 CROSS JOIN LATERAL (
                        SELECT count(*) > 1000 AS many FROM (SELECT FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id LIMIT 1001) AS g) AS n
                 CROSS JOIN LATERAL (
                        SELECT g.id, c.ready_at, c.committed, c.redrives, c.lease_id
                          FROM (SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND NOT n.many OFFSET 0) AS g
                         CROSS JOIN LATERAL (
                                SELECT c.ready_at, c.committed, c.redrives, c.lease_id FROM belfry.cursor c
                                 WHERE c.partition_id = w.id AND c.group_id >= g.id AND c.group_id <= g.id ORDER BY c.group_id DESC LIMIT 1) AS c
                        UNION ALL
                        SELECT c.group_id, c.ready_at, c.committed, c.redrives, c.lease_id FROM belfry.cursor c
                         WHERE n.many AND c.partition_id = w.id AND (c.ready_at IS NULL OR c.redrives > 0)
                           AND EXISTS (SELECT FROM belfry.consumer_group g WHERE g.id = c.group_id AND g.queue_id = p.queue_id OFFSET 0)) AS c
                 WHERE NOT p.paused AND belfry.needs_wake(c.ready_at, c.committed, p.last_seq, c.redrives, c.lease_id)
                 ORDER BY 1, 2) AS k
         CROSS JOIN LATERAL (
                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id FROM belfry.cursor c
                 WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
                 ORDER BY c.group_id DESC LIMIT 1 FOR NO KEY UPDATE) AS c
    LOOP
        CONTINUE WHEN NOT belfry.needs_wake(h.ready_at, h.committed, h.last_seq, h.redrives, h.lease_id);
        IF h.ready_at IS NOT NULL AND h.start_at IS NULL THEN
            CONTINUE WHEN h.ready_at = belfry.ready_at(h.partition_id, h.committed, h.last_seq, h.last_push_at, h.visible_until,
                                                       h.delayed_processing, h.window_buffer, h.retry_at, h.redrives, h.group_id);
        END IF;
        v_committed := CASE WHEN h.start_at IS NULL THEN h.committed
                            WHEN h.last_push_at <= h.start_at THEN h.last_seq
                            ELSE greatest(h.committed, belfry.seq_at(h.partition_id, h.start_at)) END;
        UPDATE belfry.cursor c
           SET ready_at = belfry.ready_at(h.partition_id, v_committed, h.last_seq, h.last_push_at, h.visible_until,
                                          h.delayed_processing, h.window_buffer, h.retry_at, h.redrives, h.group_id),
               committed = v_committed,
               start_at = CASE WHEN v_committed >= h.last_seq THEN h.start_at END
         WHERE c.ctid = h.ctid
        RETURNING extract(epoch FROM c.ready_at - statement_timestamp())::float8 INTO ready_in;
        group_id := h.group_id;
        partition_id := h.partition_id;
        RETURN NEXT;
    END LOOP;
END $$;
