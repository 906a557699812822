-- Takes messages for the group, from the named partition or from due partitions. batch limits messages, and
-- partitions limits partitions. The partition that has been due the longest comes first. Returns no
-- rows if nothing is due, or if other sessions have locked all due cursors. The first pop registers the
-- group. While the group joins the queue, a pop that finds nothing creates more cursors, until it finds
-- a message or all cursors exist. Then it locks the row of the group until the commit; see join_page.
--
-- Each partition has its own lease. Until the commit the row lock protects the messages: after a
-- rollback they are due at once, and the delivery does not count. After the commit the lease protects
-- them for the queue's leaseTime. attempt counts the committed deliveries of the first message,
-- including this one.
--
-- Locks one cursor for each partition it takes messages from, in a subtransaction. If the claim returns
-- nothing, the subtransaction is rolled back and releases the lock, because this transaction may last
-- long. The scan starts at the floor of the session; see load_scan_floor.
CREATE FUNCTION belfry.pop(
    queue text, consumer_group text DEFAULT '__QUEUE_MODE__', batch integer DEFAULT 1, partition text DEFAULT NULL,
    partitions integer DEFAULT 1
) RETURNS TABLE (
    lease uuid, partition_name text, seq bigint, message_id uuid, transaction_id text, trace_id uuid, payload json,
    created_at timestamptz, attempt integer, headers json
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_queue record;
    v_group bigint;
    v_joining boolean; -- the group has no cursor yet in some partitions
    v_partition bigint;
    v_lease uuid;
    v_room bigint := pop.batch;
    v_partitions_left integer := pop.partitions;
    v_received bigint;
    v_skipped boolean;
    v_limited boolean := false; -- the limits of the group allow no more
    v_now timestamptz := clock_timestamp();
    k record;
    r record;
    v_floor_setting text; -- the name of the setting with the floor of this session
    v_floor timestamptz := '-infinity';
    v_lowest timestamptz;
    v_took interval;
BEGIN
    PERFORM belfry.check_consumer(pop.queue, pop.consumer_group);
    IF coalesce(pop.batch, 0) NOT BETWEEN 1 AND 10000 OR coalesce(pop.partitions, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('batch is %s, partitions is %s.', coalesce(pop.batch::text, 'NULL'), coalesce(pop.partitions::text, 'NULL'));
    END IF;
    SELECT q.id, q.encryption_enabled INTO v_queue FROM belfry.queue q WHERE q.name = pop.queue AND coalesce(q.deleted_at, 'infinity') = 'infinity';
    IF NOT FOUND THEN
        RETURN;
    ELSIF v_queue.encryption_enabled THEN
        PERFORM belfry.raise_sealed(pop.queue);
    END IF;
    IF pop.partition IS NOT NULL THEN
        SELECT p.id INTO v_partition FROM belfry.partition p WHERE p.queue_id = v_queue.id AND p.name = pop.partition;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT g.id, v_partition IS NULL AND g.joined_upto IS NOT NULL INTO v_group, v_joining
      FROM belfry.consumer_group g
     WHERE g.queue_id = v_queue.id AND g.name = pop.consumer_group
       AND (g.whole_queue AND (v_partition IS NULL OR g.joined_upto IS NULL) OR EXISTS (SELECT 1 FROM belfry.cursor c WHERE c.partition_id = v_partition AND c.group_id = g.id));
    IF NOT FOUND THEN
        v_group := belfry.join_in_transaction(pop.queue, pop.consumer_group, pop.partition, 'all', NULL);
        SELECT v_partition IS NULL AND g.joined_upto IS NOT NULL INTO v_joining FROM belfry.consumer_group g WHERE g.id = v_group;
    END IF;

    IF (SELECT q.paused FROM belfry.queue q WHERE q.id = v_queue.id) OR (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = v_group) THEN
        RETURN; -- a resume notifies waiting sessions
    END IF;
    PERFORM belfry.check_limits(v_group);

    -- A joining group has no floor: a commit of join_page may make cursors ready below it.
    IF v_partition IS NULL AND NOT v_joining THEN
        v_floor_setting := 'belfry.floor_' || v_group;
        v_floor := belfry.load_scan_floor(v_floor_setting, v_now);
    END IF;
    LOOP
    FOR k IN
        SELECT d.at, d.partition_id, p.name, d.ready_at, NOT p.paused AND (p.last_seq > d.committed OR d.redrives > 0) AS filled
          FROM (SELECT a.at, a.partition_id, a.committed, a.redrives, a.ready_at
                  FROM (SELECT c.ctid AS at, c.partition_id, c.committed, c.redrives, c.ready_at
                          FROM belfry.cursor c
                         WHERE v_partition IS NULL AND c.group_id = v_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
                         ORDER BY c.ready_at) AS a
                UNION ALL
                -- coalesce: avoids the index cursor_ready.
                SELECT o.at, o.partition_id, o.committed, o.redrives, o.ready_at
                  FROM (SELECT c.ctid AS at, c.partition_id, c.committed, c.redrives, c.ready_at
                          FROM belfry.cursor c
                         WHERE c.partition_id = v_partition AND c.group_id >= v_group AND c.group_id <= v_group
                           AND coalesce(c.ready_at <= v_now, false)
                         ORDER BY c.group_id DESC LIMIT 1) AS o) AS d
         CROSS JOIN LATERAL (SELECT p.last_seq, p.name, p.paused FROM belfry.partition p
                              WHERE p.id >= d.partition_id AND p.id <= d.partition_id
                              ORDER BY p.id DESC LIMIT 1) AS p
    LOOP
        IF v_took IS NULL THEN
            v_took := clock_timestamp() - v_now;
            v_lowest := k.ready_at;
        END IF;
        EXIT WHEN v_room <= 0 OR v_partitions_left <= 0 OR v_limited;
        CONTINUE WHEN k.filled IS NOT TRUE;
        v_received := 0;
        v_skipped := false;
        v_lease := gen_random_uuid();
        BEGIN
            -- Skips a cursor that another session holds. belfry.claim would search all versions of the
            -- row. A cursor that changed since the selection is not skipped.
            PERFORM FROM belfry.cursor c WHERE c.ctid = k.at FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                PERFORM FROM belfry.cursor c WHERE c.ctid = k.at;
                CONTINUE WHEN FOUND;
            END IF;
            FOR r IN
                SELECT c.* FROM belfry.claim(v_group, k.partition_id, 1, v_room, v_lease) AS c
            LOOP
                IF r.item = 1 THEN
                    v_skipped := v_skipped OR r.expired IS NOT NULL OR r.given_up IS NOT NULL OR r.skipped IS NOT NULL OR r.ready_at = belfry.blocked();
                    v_limited := v_limited OR r.outcome = 6;
                ELSIF r.item = 2 THEN
                    IF r.encrypted THEN
                        PERFORM belfry.raise_sealed(pop.queue);
                    END IF;
                    v_received := v_received + 1;
                    lease := v_lease;
                    partition_name := k.name;
                    seq := r.seq;
                    message_id := r.id;
                    transaction_id := r.transaction_id;
                    trace_id := r.trace_id;
                    payload := r.payload;
                    created_at := r.created_at;
                    attempt := r.attempt;
                    headers := r.headers;
                    RETURN NEXT;
                END IF;
            END LOOP;
            IF v_received = 0 AND v_skipped THEN
                -- The claim skipped messages (expired, or delivered too often) or blocked the cursor, so it is not rolled back.
                UPDATE belfry.cursor c
                   SET ready_at = clock_timestamp()
                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group
                   AND (c.ready_at IS NULL OR c.redrives > 0 AND c.lease_id IS NULL);
                PERFORM belfry.announce_ready(v_group, k.partition_id);
            ELSIF v_received = 0 THEN
                RAISE EXCEPTION 'nothing was taken' USING ERRCODE = 'BF012';
            END IF;
        EXCEPTION WHEN SQLSTATE 'BF012' THEN
            NULL; -- the rollback has released the lock
        END;
        v_room := v_room - v_received;
        IF v_received > 0 THEN
            v_partitions_left := v_partitions_left - 1;
            PERFORM belfry.announce_ready(v_group, k.partition_id);
        END IF;
    END LOOP;
    -- A pop that found nothing continues the join of its group.
    EXIT WHEN NOT v_joining OR v_room < pop.batch OR v_limited;
    v_joining := NOT belfry.join_page_in_transaction(v_group);
    v_now := clock_timestamp();
    END LOOP;
    IF v_floor = '-infinity' AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM belfry.save_scan_floor(v_floor_setting, v_lowest, v_now, coalesce(v_took, clock_timestamp() - v_now));
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.pop(text, text, integer, text, integer) FROM PUBLIC;
