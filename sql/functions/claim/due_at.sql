-- Returns the instant at which the first message after committed becomes visible, or now if that instant
-- has passed. ready_at calls this function for queues with a delay or a window, and for partitions with
-- delayed messages.
CREATE FUNCTION belfry.due_at(
    partition_id bigint, committed bigint, last_push_at timestamptz, delay_seconds bigint, window_seconds bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(
        statement_timestamp(),
        CASE WHEN window_seconds > 0 THEN last_push_at + make_interval(secs => window_seconds) END,
        (SELECT greatest(m.visible_at,
                         CASE WHEN delay_seconds > 0 THEN m.created_at + make_interval(secs => delay_seconds) END)
           FROM belfry.message m
          WHERE m.partition_id = due_at.partition_id AND m.seq > due_at.committed
          ORDER BY m.seq LIMIT 1))
$$;
