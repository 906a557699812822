-- Consumer groups can be deleted, keep a stored subscription, and start later.

-- Kept from a deleted group: mode and start_at are its subscription and decide
-- where a new group of that name starts, whatever its first pop asks for.
ALTER TABLE belfry.consumer_group ADD COLUMN kept boolean NOT NULL DEFAULT false;
CREATE INDEX consumer_group_name ON belfry.consumer_group (name, queue_id);

-- Groups whose deletion has begun. Their row in consumer_group is gone, so
-- nothing can be popped, acknowledged or extended with what is left: cursors and
-- dead letters, which go in small transactions.
CREATE TABLE belfry.group_deleted (
    group_id bigint PRIMARY KEY,
    queue_id bigint NOT NULL
);

-- As in version 1, and a cursor born before its group's start waits for it.
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
        INSERT INTO belfry.cursor (partition_id, group_id, start_at)
        SELECT born.id, g.id, CASE WHEN g.start_at > clock_timestamp() THEN g.start_at END
          FROM born
         CROSS JOIN LATERAL (
                SELECT g.id, g.start_at FROM belfry.consumer_group g WHERE g.queue_id = born.queue_id AND g.whole_queue OFFSET 0) AS g;
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

-- As in version 1, and: what was kept from a deleted group decides; mode new
-- starts at p_start (when the pop came) if given; a start in the future holds.
--
-- Registers a consumer group at its first pop and gives it the cursors it
-- lacks: in every partition, or in the named one. What is stored first wins;
-- later wishes for another start are ignored. Returns no row for an unknown
-- queue. New cursors may have missed a push that was committing meanwhile: the
-- caller wakes the partitions after the commit.
CREATE OR REPLACE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, cursors_made bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue belfry.queue;
    v_group belfry.consumer_group;
    v_start timestamptz := CASE p_mode WHEN 'new' THEN coalesce(p_start, clock_timestamp()) WHEN 'timestamp' THEN p_start END;
    v_made bigint := 0;
BEGIN
    SELECT q.* INTO v_queue FROM belfry.queue q
     WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue)
    VALUES (v_queue.id, p_group, p_mode, v_start, p_partition IS NULL)
    ON CONFLICT (queue_id, name) DO NOTHING;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue.id AND g.name = p_group;

    IF p_partition IS NULL AND NOT v_group.whole_queue THEN
        UPDATE belfry.consumer_group g
           SET whole_queue = true,
               mode = CASE WHEN g.kept THEN g.mode ELSE p_mode END,
               start_at = CASE WHEN g.kept THEN g.start_at ELSE v_start END
         WHERE g.id = v_group.id
        RETURNING g.* INTO v_group;
    END IF;
    IF v_group.whole_queue OR v_group.kept THEN
        v_start := v_group.start_at;
    END IF;

    INSERT INTO belfry.cursor (partition_id, group_id, committed, start_at, ready_at)
    SELECT s.id, v_group.id, s.committed, CASE WHEN v_start > clock_timestamp() THEN v_start END,
           belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                           v_queue.delayed_processing, v_queue.window_buffer, v_queue.paused OR v_group.paused, NULL, NULL)
      FROM (SELECT p.id, p.last_seq, p.last_push_at, p.visible_until,
                   CASE WHEN v_start IS NULL THEN p.trimmed
                        WHEN p.last_push_at <= v_start THEN p.last_seq
                        ELSE belfry.seq_at(p.id, v_start)
                   END AS committed
              FROM belfry.partition p
             WHERE p.queue_id = v_queue.id AND (p_partition IS NULL OR p.name = p_partition)
               AND (SELECT c.group_id FROM belfry.cursor c
                     WHERE c.partition_id = p.id AND c.group_id = v_group.id) IS NULL
            OFFSET 0) s;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    RETURN QUERY SELECT v_queue.id, v_group.id, v_made;
END $$;

-- Moves the cursors of group p_group in p_partitions, which ascend, behind the
-- last message stored at or before p_place: 'infinity' is behind the last one,
-- '-infinity' before the first. Leases end, and what is first then has no
-- attempts behind it. Moved back (or not at all), the group gets dead letters
-- again as it gets everything else; moved forward, those beyond are still
-- skipped. A wake must follow. Returns where the cursors are.
--
-- It is a function, not one statement, because each of its statements has one
-- plan, by primary key, and costs the same for each cursor: the one plan of an
-- UPDATE joined to a page of cursors costs its square.
CREATE FUNCTION belfry.seek_cursors(p_partitions bigint[], p_group bigint, p_place timestamptz)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
    v_to bigint;
    k record;
    f record;
BEGIN
    FOREACH v_id IN ARRAY p_partitions LOOP
        SELECT c.committed, c.skip, c.redrives INTO k
          FROM belfry.cursor c WHERE c.partition_id = v_id AND c.group_id = p_group FOR NO KEY UPDATE;
        CONTINUE WHEN NOT FOUND;
        -- A newer snapshot than that of the lock: last_seq is not behind committed.
        SELECT p.trimmed, p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
               q.paused OR g.paused AS paused INTO f
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
          JOIN belfry.consumer_group g ON g.id = p_group
         WHERE p.id = v_id;
        CONTINUE WHEN NOT FOUND; -- it is being deleted
        v_to := CASE WHEN p_place = '-infinity' THEN f.trimmed
                     WHEN p_place = 'infinity' OR f.last_push_at <= p_place THEN f.last_seq
                     ELSE belfry.seq_at(v_id, p_place) END;
        UPDATE belfry.cursor c
           SET committed = v_to,
               skip = CASE WHEN v_to > k.committed THEN (
                    SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(k.skip) AS s(seq) WHERE s.seq > v_to) END,
               attempts = 0, failures = 0, retry_at = NULL, alone_until = NULL, start_at = NULL,
               lease_id = NULL, lease_until = NULL, lease_end = NULL,
               ready_at = belfry.ready_at(v_id, v_to, f.last_seq, f.last_push_at, f.visible_until,
                                          f.delayed_processing, f.window_buffer, f.paused, NULL, k.redrives)
         WHERE c.partition_id = v_id AND c.group_id = p_group;
        RETURN NEXT v_to;
    END LOOP;
END $$;
