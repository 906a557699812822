-- Returns the instant at which the first redriven message of a cursor, in the order of the log, is
-- ready, or now if that instant has passed.
CREATE FUNCTION belfry.redrives_ready_at(p_partition bigint, p_group bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(statement_timestamp(), (
        SELECT r.retry_at FROM belfry.redrive r
         WHERE r.partition_id = p_partition AND r.group_id = p_group
         ORDER BY r.seq LIMIT 1))
$$;
