-- Makes a message a dead letter of a group, unless it is one already or was deleted. p_error is UTF-8.
CREATE FUNCTION belfry.park(p_partition bigint, p_group bigint, p_seq bigint, p_failures integer, p_error bytea) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
    SELECT p_partition, p_seq, p_group, p_failures, coalesce(nullif(convert_from(p_error, 'UTF8'), ''), 'Retries exhausted')
      FROM belfry.message m WHERE m.partition_id = p_partition AND m.seq = p_seq
    ON CONFLICT (partition_id, group_id, seq) DO NOTHING
$$;
