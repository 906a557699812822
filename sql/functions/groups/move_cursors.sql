-- Moves the cursors of a partition that are before p_upto to p_upto. A cursor with a live lease at p_now
-- stays. An expired lease ends. The caller, sweep_partition, holds the locks of the partition and of all
-- its cursors. So no push can commit meanwhile: ready_at is exact, and no wake is needed. Returns the
-- moved groups, and the seconds until each is ready (NULL: nothing is left).
CREATE FUNCTION belfry.move_cursors(p_partition bigint, p_upto bigint, p_now timestamptz)
RETURNS TABLE (group_id bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE belfry.cursor c
       SET committed = p_upto, attempts = 0, failures = 0,
           lease_id = NULL, lease_until = NULL, lease_end = NULL,
           skip = belfry.skip_beyond(c.skip, p_upto),
           retry_at = NULL,
           ready_at = CASE WHEN c.start_at IS NULL OR c.redrives > 0
               THEN belfry.ready_at(p_partition, p_upto, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END, p.last_push_at, p.visible_until,
                                    q.delayed_processing, q.window_buffer, NULL, c.redrives, c.group_id) END
      FROM (SELECT k.group_id FROM belfry.cursor k
             WHERE k.partition_id = p_partition AND k.committed < p_upto AND coalesce(k.lease_until <= p_now, true)
            OFFSET 0) AS h
     CROSS JOIN LATERAL (
            SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p WHERE p.id = p_partition OFFSET 0) AS p
     CROSS JOIN LATERAL (
            SELECT q.delayed_processing, q.window_buffer
              FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE c.partition_id = p_partition AND c.group_id = h.group_id
    RETURNING c.group_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8;
END $$;
