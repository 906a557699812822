-- What deleted groups left is purged here: nothing could find it any more.
DELETE FROM belfry.dead_letter l USING belfry.group_deleted d WHERE l.group_id = d.group_id;
DELETE FROM belfry.cursor c USING belfry.group_deleted d WHERE c.group_id = d.group_id;
DROP TABLE belfry.group_deleted;
DELETE FROM belfry.consumer_group g
 WHERE g.kept AND NOT g.whole_queue AND NOT EXISTS (SELECT 1 FROM belfry.cursor c WHERE c.group_id = g.id);

-- Finds or creates queues and partitions by name. The share lock on the queue
-- row and the update lock of join_group exclude each other, so a partition and
-- a group born at the same time never miss each other's cursor. Names that
-- belong to a queue being deleted at this instant are absent from the result;
-- the caller asks again.
CREATE OR REPLACE FUNCTION belfry.open_partitions(
    p_queues text[], p_partitions text[], p_lease_time bigint, p_retry_limit bigint
) RETURNS TABLE (
    queue_name text, partition_name text, queue_id bigint, partition_id bigint, partition_uid uuid, sealed boolean
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO belfry.queue (name, namespace, task, lease_time, retry_limit)
    SELECT DISTINCT w.name, split_part(w.name, '.', 1), split_part(w.name, '.', 2), p_lease_time, p_retry_limit
      FROM unnest(p_queues) AS w(name)
     WHERE (SELECT q.id FROM belfry.queue q WHERE q.name = w.name AND q.deleted_at IS NULL) IS NULL
     ORDER BY 1
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;

    IF EXISTS (
        SELECT 1 FROM unnest(p_queues, p_partitions) AS w(queue, partition)
         WHERE (SELECT p.id FROM belfry.partition p
                 WHERE p.queue_id = (SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL)
                   AND p.name = w.partition) IS NULL
    ) THEN
        PERFORM q.id FROM belfry.queue q
          WHERE q.name = ANY (p_queues) AND q.deleted_at IS NULL
          ORDER BY q.id FOR SHARE;

        WITH born AS (
            INSERT INTO belfry.partition (queue_id, name)
            SELECT DISTINCT q.id, w.partition
              FROM unnest(p_queues, p_partitions) AS w(queue, partition)
             CROSS JOIN LATERAL (
                    SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
             WHERE (SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = w.partition) IS NULL
             ORDER BY 1, 2
            ON CONFLICT (queue_id, name) DO NOTHING
            RETURNING id, queue_id
        )
        INSERT INTO belfry.cursor (partition_id, group_id)
        SELECT born.id, g.id
          FROM born
         CROSS JOIN LATERAL (
                SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = born.queue_id AND g.whole_queue OFFSET 0) AS g;
    END IF;

    RETURN QUERY
    SELECT q.name, p.name, q.id, p.id, p.uid, q.encryption_enabled
      FROM unnest(p_queues, p_partitions) AS w(queue, partition)
     CROSS JOIN LATERAL (
            SELECT q.id, q.name, q.encryption_enabled FROM belfry.queue q
             WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
     CROSS JOIN LATERAL (
            SELECT p.id, p.uid, p.name FROM belfry.partition p
             WHERE p.queue_id = q.id AND p.name = w.partition OFFSET 0) AS p;
END $$;

-- Registers a consumer group at its first pop and gives it the cursors it
-- lacks: in every partition, or in the named one. What is stored first wins;
-- later wishes for another start are ignored. Returns no row for an unknown
-- queue. New cursors may have missed a push that was committing meanwhile: the
-- caller runs wake_group after the commit.
CREATE OR REPLACE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, cursors_made bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue belfry.queue;
    v_group belfry.consumer_group;
    v_made bigint := 0;
BEGIN
    SELECT q.* INTO v_queue FROM belfry.queue q
     WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue)
    VALUES (v_queue.id, p_group, p_mode,
            CASE p_mode WHEN 'new' THEN clock_timestamp() WHEN 'timestamp' THEN p_start END,
            p_partition IS NULL)
    ON CONFLICT (queue_id, name) DO NOTHING;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue.id AND g.name = p_group;

    IF p_partition IS NULL AND NOT v_group.whole_queue THEN
        UPDATE belfry.consumer_group g
           SET whole_queue = true, mode = p_mode,
               start_at = CASE p_mode WHEN 'new' THEN clock_timestamp() WHEN 'timestamp' THEN p_start END
         WHERE g.id = v_group.id
        RETURNING g.* INTO v_group;
    END IF;

    INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at)
    SELECT s.id, v_group.id, s.committed,
           belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                           v_queue.delayed_processing, v_queue.window_buffer, v_queue.paused OR v_group.paused)
      FROM (SELECT p.id, p.last_seq, p.last_push_at, p.visible_until,
                   CASE CASE WHEN v_group.whole_queue THEN v_group.mode ELSE p_mode END
                        WHEN 'new' THEN p.last_seq
                        WHEN 'timestamp' THEN belfry.seq_at(p.id, CASE WHEN v_group.whole_queue THEN v_group.start_at ELSE p_start END)
                        ELSE 0
                   END AS committed
              FROM belfry.partition p
             WHERE p.queue_id = v_queue.id AND (p_partition IS NULL OR p.name = p_partition)
               AND (SELECT c.group_id FROM belfry.cursor c
                     WHERE c.partition_id = p.id AND c.group_id = v_group.id) IS NULL
            OFFSET 0) s;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    RETURN QUERY SELECT v_queue.id, v_group.id, v_made;
END $$;

DROP FUNCTION belfry.seek_cursors(bigint[], bigint, timestamptz);
DROP INDEX belfry.consumer_group_name;
ALTER TABLE belfry.consumer_group DROP COLUMN kept;
