-- Sets ready_at to NULL for cursors that are marked ready although nothing is left, or although the
-- partition is paused. belfry.ack leaves such cursors. Both arrays name the cursors, ascending by
-- (partition, group). Returns the number of settled cursors. A wake must follow the commit.
--
-- Locks each cursor. It skips a cursor that another transaction has locked: that transaction leaves
-- ready_at correct, or in the past. It checks a cursor before the lock, so that it locks no cursor with
-- messages, and again after the lock, with a newer snapshot.
CREATE FUNCTION belfry.settle_drained(p_partitions bigint[], p_groups bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_settled bigint := 0;
    k record;
    v_at tid;
    v_paused boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR k IN
        SELECT w.partition_id, w.group_id FROM unnest(p_partitions, p_groups) AS w(partition_id, group_id) ORDER BY 1, 2
    LOOP
        SELECT p.paused INTO v_paused FROM belfry.partition p
         WHERE p.id >= k.partition_id AND p.id <= k.partition_id ORDER BY p.id DESC LIMIT 1;
        PERFORM c.group_id FROM belfry.cursor c
           JOIN (SELECT n.ctid AS at, n.ready_at
                   FROM belfry.cursor n
                  WHERE n.partition_id = k.partition_id AND n.group_id >= k.group_id AND n.group_id <= k.group_id
                  ORDER BY n.group_id DESC LIMIT 1) AS newest ON newest.at = c.ctid
          WHERE newest.ready_at <= statement_timestamp() AND coalesce(c.ready_at <= statement_timestamp(), false)
            AND (v_paused OR NOT EXISTS (
                SELECT 1 FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > c.committed
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip)))
            FOR NO KEY UPDATE OF c SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- These statements have newer snapshots than the lock.
        SELECT c.ctid INTO v_at
          FROM belfry.cursor c
         WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
         ORDER BY c.group_id DESC LIMIT 1;
        IF v_paused THEN
            UPDATE belfry.cursor c
               SET ready_at = NULL, lease_id = NULL, lease_until = NULL, lease_end = NULL
             WHERE c.ctid = v_at AND c.ready_at <= statement_timestamp();
            v_settled := v_settled + 1;
            CONTINUE;
        END IF;
        UPDATE belfry.cursor c
           SET committed = p.last_seq, skip = NULL, attempts = 0, failures = 0, retry_at = NULL, ready_at = NULL,
               lease_id = NULL, lease_until = NULL, lease_end = NULL
          FROM (SELECT p.last_seq
                  FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC LIMIT 1) AS p
         WHERE c.ctid = v_at
           AND c.ready_at <= statement_timestamp() AND CASE WHEN c.redrives > 0 THEN belfry.redrives_ready_at(c.partition_id, c.group_id) > statement_timestamp() ELSE true END
           AND NOT EXISTS (
                SELECT 1 FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > c.committed
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip));
        IF FOUND THEN
            v_settled := v_settled + 1;
        END IF;
    END LOOP;
    RETURN v_settled;
END $$;
