-- Changes the state of a stream (by uid) in a partition of its source (by uid): the keys get the
-- values and the ends of their windows. A NULL value deletes the key. Returns 0, or 1 if the stream
-- does not exist, or 2 if the partition is none of its source.
--
-- It runs first in its transaction, and the lock makes the cycles of one stream and partition run one
-- after the other. Its holder waits for locks of partitions and cursors, and no holder of these waits
-- for it.
CREATE FUNCTION belfry.apply_state(p_stream uuid, p_partition uuid, p_keys text[], p_values text[], p_window_ends float8[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_stream bigint;
    v_source text;
    v_partition bigint;
BEGIN
    SELECT s.id, s.source INTO v_stream, v_source FROM belfry.stream s WHERE s.uid = p_stream FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    SELECT p.id INTO v_partition
      FROM belfry.partition p
     WHERE p.uid = p_partition AND NOT p.closed
       AND (SELECT q.name FROM belfry.queue q WHERE q.id = p.queue_id AND q.deleted_at IS NULL) = v_source
       FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN 2;
    END IF;
    PERFORM pg_advisory_xact_lock((v_stream % 2147483647)::integer, (v_partition % 2147483647)::integer);
    DELETE FROM belfry.stream_state s
     WHERE s.stream_id = v_stream AND s.partition_id = v_partition
       AND s.key = ANY (ARRAY (SELECT c.key FROM unnest(p_keys, p_values) AS c(key, value) WHERE c.value IS NULL));
    INSERT INTO belfry.stream_state AS s (stream_id, partition_id, key, value, window_end, updated_at)
    SELECT v_stream, v_partition, c.key, c.value::json, c.window_end, clock_timestamp()
      FROM unnest(p_keys, p_values, p_window_ends) AS c(key, value, window_end)
     WHERE c.value IS NOT NULL
    ON CONFLICT (stream_id, partition_id, key) DO UPDATE
       SET value = excluded.value, window_end = excluded.window_end, updated_at = excluded.updated_at;
    RETURN 0;
END $$;
