-- Creates the missing cursors of group p_group in p_partitions. They start after the last message stored
-- at or before p_start, or at the first message if p_start is NULL. A start in the future is stored.
--
-- The caller holds a lock, so that no other session creates cursors of the group; see join_group and
-- join_page. A push that commits meanwhile may miss a new cursor. So the function returns the partitions
-- whose new cursor is not ready, and a wake of these partitions must follow the commit.
CREATE FUNCTION belfry.create_cursors(p_group bigint, p_partitions bigint[], p_start timestamptz) RETURNS bigint[] LANGUAGE sql AS $$
    WITH made AS (
        INSERT INTO belfry.cursor (partition_id, group_id, tenant_id, committed, start_at, ready_at)
        SELECT s.id, p_group, s.tenant_id, s.committed, CASE WHEN p_start > clock_timestamp() THEN p_start END,
               belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                               s.delayed_processing, s.window_buffer, NULL, NULL)
          FROM (SELECT p.id, p.tenant_id, p.last_seq, p.last_push_at, p.visible_until, g.delayed_processing, g.window_buffer,
                       CASE WHEN p_start IS NULL THEN p.trimmed
                            WHEN p.last_push_at <= p_start THEN p.last_seq
                            ELSE belfry.seq_at(p.id, p_start)
                       END AS committed
                  FROM (SELECT q.delayed_processing, q.window_buffer
                          FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
                         WHERE g.id = p_group OFFSET 0) AS g
                 CROSS JOIN unnest(p_partitions) AS w(id)
                 CROSS JOIN LATERAL (
                        SELECT p.id, p.tenant_id, p.last_seq, p.last_push_at, p.visible_until, p.trimmed FROM belfry.partition p
                         WHERE p.id >= w.id AND p.id <= w.id
                         ORDER BY p.id DESC LIMIT 1) AS p
                 WHERE (SELECT c.group_id FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = p_group) IS NULL
                OFFSET 0) AS s
        RETURNING partition_id, ready_at
    )
    SELECT coalesce(array_agg(made.partition_id ORDER BY made.partition_id), '{}') FROM made WHERE made.ready_at IS NULL
$$;
