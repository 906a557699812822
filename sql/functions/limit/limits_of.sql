-- Returns the row of belfry.group_limit that holds for a group, or NULL. A row of the group comes before that of the queue.
CREATE FUNCTION belfry.limits_of(p_queue bigint, p_group text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT l.id FROM belfry.group_limit l
     WHERE l.queue_id = p_queue AND l.group_name IN (p_group, '')
     ORDER BY l.group_name DESC LIMIT 1
$$;
