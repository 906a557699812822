-- Registers a group inside the transaction of a SQL consumer, and returns the id of the group, or NULL
-- for an unknown queue. It creates the cursors in the first page of partitions. Later calls of
-- belfry.pop, and the servers, create the others.
CREATE FUNCTION belfry.join_in_transaction(p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    j record;
BEGIN
    SELECT k.group_id, k.joining, k.unready INTO j FROM belfry.join_group(p_queue, p_group, p_partition, p_mode, p_start) AS k;
    PERFORM belfry.mark_ready(j.group_id, j.unready);
    IF p_partition IS NULL AND j.joining THEN
        PERFORM belfry.join_page_in_transaction(j.group_id);
    END IF;
    RETURN j.group_id;
END $$;
