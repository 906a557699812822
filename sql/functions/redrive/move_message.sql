-- Moves the instant before which no pop returns a message to p_visible_at, or to now if p_visible_at is NULL or
-- has passed. The message keeps its place in the log, so the later messages of the partition wait for it.
--
-- Returns no row if the message does not exist. refused is 'leased' if a live lease of group_name covers
-- the message. It is 'finished' if no group waits for the message, or if its instant has passed and group_name
-- has finished it. Otherwise before and after are the old and the new instant (NULL: no delay), and group_ids
-- are the groups whose cursor is ready in ready_in seconds. A lease that has ended leaves its cursor due,
-- and the next claim reads the new instant.
--
-- Locks the queue and its joining groups (shared), the partition, and its cursors in group order. Without the
-- first two, a join that does not see the new instant could create a cursor that is ready at the old one.
CREATE FUNCTION belfry.move_message(p_partition bigint, p_transaction text, p_visible_at timestamptz)
RETURNS TABLE (refused text, group_name text, before timestamptz, after timestamptz, group_ids bigint[], ready_in float8[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue bigint;
    v_seq bigint;
    k record;
BEGIN
    SELECT p.queue_id INTO v_queue FROM belfry.partition p WHERE p.id = p_partition;
    PERFORM q.id FROM belfry.queue q WHERE q.id = v_queue FOR SHARE;
    PERFORM g.id FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.joined_upto IS NOT NULL ORDER BY g.id FOR SHARE;
    PERFORM p.id FROM belfry.partition p WHERE p.id = p_partition AND NOT p.closed FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    SELECT m.seq, m.visible_at INTO v_seq, before
      FROM belfry.message m WHERE m.partition_id = p_partition AND m.transaction_id = p_transaction;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT min(g.name) FILTER (WHERE s.leased) AS holder, min(g.name) FILTER (WHERE s.finished) AS reader,
           count(*) FILTER (WHERE NOT s.finished) AS waiting
      INTO k
      FROM (SELECT c.group_id, c.committed >= v_seq OR coalesce(v_seq <@ c.skip, false) AS finished,
                   c.lease_until > clock_timestamp()
                   AND CASE WHEN c.lease_end < 0 THEN EXISTS (
                                 SELECT FROM belfry.redrive r
                                  WHERE r.partition_id = p_partition AND r.group_id = c.group_id AND r.seq = v_seq AND r.lease_id = c.lease_id)
                            ELSE c.committed < v_seq AND v_seq <= c.lease_end AND NOT coalesce(v_seq <@ c.skip, false) END AS leased
              FROM belfry.cursor c
             WHERE c.partition_id = p_partition) AS s
      JOIN belfry.consumer_group g ON g.id = s.group_id;
    group_name := coalesce(k.holder, k.reader);
    refused := CASE WHEN k.holder IS NOT NULL THEN 'leased'
                    WHEN k.reader IS NOT NULL AND (k.waiting = 0 OR coalesce(before <= clock_timestamp(), true)) THEN 'finished' END;
    IF refused IS NULL THEN
        after := CASE WHEN p_visible_at > clock_timestamp() THEN p_visible_at END;
        UPDATE belfry.message m SET visible_at = after
         WHERE m.partition_id = p_partition AND m.seq = v_seq AND m.visible_at IS DISTINCT FROM after;
        UPDATE belfry.partition p SET visible_until = after
         WHERE p.id = p_partition AND after > coalesce(p.visible_until, '-infinity');
        WITH moved AS (
            UPDATE belfry.cursor c
               SET ready_at = belfry.ready_at(p_partition, c.committed, p.last_seq, p.last_push_at, p.visible_until,
                                              q.delayed_processing, q.window_buffer, c.retry_at, c.redrives, c.group_id)
              FROM belfry.partition p
              JOIN belfry.queue q ON q.id = p.queue_id
             WHERE c.partition_id = p_partition AND c.committed < v_seq AND c.lease_id IS NULL AND c.start_at IS NULL AND p.id = p_partition
            RETURNING c.group_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in
        )
        SELECT array_agg(w.group_id ORDER BY w.group_id), array_agg(w.ready_in ORDER BY w.group_id)
          INTO group_ids, ready_in
          FROM moved w WHERE w.ready_in IS NOT NULL;
    END IF;
    RETURN NEXT;
END $$;
