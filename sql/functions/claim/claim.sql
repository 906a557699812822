-- One pop of a group. Takes the leases of up to p_partitions due partitions and returns up to
-- p_batch messages. The partition that has been due the longest comes first. The query store/claim
-- is the only caller besides belfry.pop.
--
--   p_partition   Claim from this partition alone. NULL: from any partition.
--   p_lease       The id of the leases. NULL: consume the messages on delivery (autoAck).
--   p_floor       The caller knows that no cursor is due before this instant. NULL: unknown.
--   p_next_floor  No cursor becomes ready between now and this instant. NULL: unknown.
--   p_look        Verify p_floor, and return a 'floor' row.
--
-- The kinds of result rows; 'group' comes first:
--
--   'group'        Always one row. group_exists: The group and its queue exist. was_due: A
--                  cursor was due. ready_at: The next instant at which a cursor is due, if the
--                  call locked none. created_at: The clock of the database.
--   'leased'       A partition whose messages are delivered. The 'message' rows follow it. Its
--                  payload is what an undo of an autoAck delivery needs.
--   'redelivered'  The same for redriven messages. See redeliver.
--   'aside'        Comes before the other rows of a partition that skipped messages. seq is the
--                  number of expired messages. attempts is the number of messages given up.
--   'message'      A delivered message.
--   'tried'        A partition that was due although no message is visible. The caller settles
--                  the cursor with store/settle.
--   'moved'        A partition that is not due any more. Its ready_at was corrected.
--   'floor'        Comes last without p_partition, if p_look is set or nothing was locked. No
--                  cursor is due before ready_at. No cursor becomes ready between now and
--                  created_at. NULL: unknown.
--
-- Locks: the cursor row of each partition it delivers from. It skips locked cursors, and so waits
-- for nobody. A commit with a lease does not wait for the disk: a lease that a crash loses only
-- makes the messages due earlier.
--
-- It is a function because starting a plan of this size costs more than the claim of one message.
-- Each statement has a new snapshot. So a statement after the lock of a cursor sees the newest
-- version of the partition.
CREATE FUNCTION belfry.claim(
    p_group bigint, p_partition bigint, p_partitions bigint, p_batch bigint, p_lease uuid,
    p_floor timestamptz DEFAULT NULL, p_next_floor timestamptz DEFAULT NULL, p_look boolean DEFAULT false
) RETURNS TABLE (
    kind text, partition_id bigint, group_exists boolean, was_due boolean, ready_at timestamptz, attempts integer,
    seq bigint, id uuid, transaction_id text, trace_id uuid, payload json, created_at timestamptz, producer_sub text,
    encrypted boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_floor timestamptz := coalesce(p_floor, '-infinity');
    v_due timestamptz;
    v_lease timestamptz;
    v_room bigint := p_batch;
    v_taken bigint;
    v_upto bigint;
    v_limit bigint;
    v_more boolean;
    v_moved boolean; -- a statement wrote the cursor after its lock
    v_hidden_from bigint;
    v_redrives_ready timestamptz;
    v_any_locked boolean := false;
    due CURSOR FOR
        SELECT a.ctid, a.partition_id, a.committed, a.skip, a.redrives, a.retry_at, a.failures, a.attempts, a.start_at
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at
                  FROM belfry.cursor c
                 WHERE p_partition IS NULL AND c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
                 ORDER BY c.ready_at
                 LIMIT p_partitions
                   FOR NO KEY UPDATE SKIP LOCKED) AS a
        UNION ALL
        SELECT o.ctid, o.partition_id, o.committed, o.skip, o.redrives, o.retry_at, o.failures, o.attempts, o.start_at
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at
                  FROM (SELECT n.ctid AS at, n.ready_at
                          FROM belfry.cursor n
                         WHERE n.partition_id = p_partition AND n.group_id >= p_group AND n.group_id <= p_group
                         ORDER BY n.group_id DESC
                         LIMIT 1) AS newest
                  JOIN belfry.cursor c ON c.ctid = newest.at
                 WHERE newest.ready_at <= v_now AND coalesce(c.ready_at <= v_now, false) -- coalesce: not by the index cursor_ready
                   FOR NO KEY UPDATE OF c SKIP LOCKED) AS o;
    k record;
    f record;
    aside record;
BEGIN
    IF p_lease IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    -- One FETCH for each cursor, so the call locks no more cursors than it needs.
    OPEN due;
    LOOP
        EXIT WHEN v_room = 0; -- the other partitions are left to other pops
        FETCH due INTO k;
        EXIT WHEN NOT FOUND;
        SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
               q.paused OR g.paused AS paused, make_interval(secs => coalesce(nullif(q.lease_time, 0), 60)) AS lease_time,
               q.delayed_processing = 0 AND coalesce(p.visible_until <= v_now, true) AS all_visible,
               q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries,
               belfry.ready_at(k.partition_id, k.committed, p.last_seq, p.last_push_at, p.visible_until,
                               q.delayed_processing, q.window_buffer, q.paused OR g.paused, k.retry_at, NULL) AS ready_at
          INTO f
          FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
                  FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
          JOIN belfry.queue q ON q.id = p.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' -- coalesce: see append
          JOIN belfry.consumer_group g ON g.id = p_group;
        CONTINUE WHEN NOT FOUND; -- the partition or the group is being deleted
        IF NOT v_any_locked THEN
            v_any_locked := true;
            kind := 'group';
            group_exists := true;
            was_due := true;
            created_at := v_now;
            RETURN NEXT;
        END IF;
        v_moved := false;
        v_redrives_ready := NULL;
        IF k.redrives > 0 AND NOT f.paused THEN
            -- Redriven messages come first, in a delivery of their own.
            RETURN QUERY
            SELECT r.kind, r.partition_id, NULL::boolean, r.ready_at > v_now, r.ready_at, r.attempts, r.seq, r.id, r.transaction_id,
                   r.trace_id, r.payload, r.created_at, r.producer_sub, r.encrypted
              FROM belfry.redeliver(p_group, k.partition_id, v_room, p_lease, f.lease_time, v_now) AS r;
            GET DIAGNOSTICS v_taken = ROW_COUNT;
            IF v_taken > 0 THEN
                v_room := v_room - (v_taken - 1); -- the first row stands for the partition
                CONTINUE;
            END IF;
            v_moved := true;
            SELECT CASE WHEN c.redrives > 0 THEN belfry.redrives_ready_at(c.partition_id, c.group_id) END INTO v_redrives_ready
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group;
        END IF;
        IF k.start_at IS NOT NULL THEN
            f.ready_at := NULL;
        END IF;
        partition_id := k.partition_id;
        was_due := v_redrives_ready IS NOT NULL;
        v_limit := v_room;
        v_more := false;
        IF (f.expire_after_seconds > 0 OR f.max_deliveries > 0) AND f.ready_at <= v_now THEN
            SELECT s.moved, s.committed, s.skip, s.expired, s.given_up, s.more, s.alone INTO aside
              FROM belfry.skip_undeliverable(k.partition_id, p_group, v_now, f.expire_after_seconds, f.dead_letter_expired,
                                    f.max_deliveries) AS s;
            v_moved := true;
            IF aside.moved THEN
                kind := 'aside';
                ready_at := NULL;
                seq := aside.expired;
                attempts := aside.given_up;
                RETURN NEXT;
                seq := NULL;
                attempts := NULL;
                k.committed := aside.committed;
                k.skip := aside.skip;
                k.failures := 0;
                k.attempts := 0;
                f.ready_at := belfry.ready_at(k.partition_id, aside.committed, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, f.paused, NULL, NULL);
                v_more := aside.more;
            END IF;
            IF aside.alone AND p_lease IS NOT NULL THEN
                v_limit := 1;
            END IF;
        END IF;
        IF v_moved THEN
            SELECT c.ctid INTO k.ctid
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC
             LIMIT 1;
        END IF;
        ready_at := least(f.ready_at, v_redrives_ready);
        IF f.ready_at IS NULL OR f.ready_at > v_now OR v_more THEN
            UPDATE belfry.cursor c
               SET ready_at = least(f.ready_at, v_redrives_ready), lease_id = NULL, lease_until = NULL, lease_end = NULL
             WHERE c.ctid = k.ctid;
            kind := 'moved';
            RETURN NEXT;
            CONTINUE;
        END IF;

        v_hidden_from := 9223372036854775807;
        IF NOT f.all_visible THEN
            SELECT coalesce(min(v.seq), v_hidden_from) INTO v_hidden_from
              FROM (SELECT m.seq, m.created_at, m.visible_at
                      FROM belfry.message m
                     WHERE m.partition_id = k.partition_id AND m.seq > k.committed
                     ORDER BY m.seq
                     LIMIT v_limit) AS v
             WHERE v.visible_at > v_now OR v.created_at > v_now - make_interval(secs => f.delayed_processing);
        END IF;
        SELECT count(*), max(s.seq) INTO v_taken, v_upto
          FROM (SELECT m.seq
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq < v_hidden_from
                   AND (k.skip IS NULL OR m.seq <> ALL (k.skip))
                 ORDER BY m.seq
                 LIMIT least(f.last_seq - k.committed, v_limit)) AS s;
        IF v_taken = 0 THEN
            kind := 'tried';
            RETURN NEXT;
            CONTINUE;
        END IF;
        v_room := v_room - v_taken;

        IF p_lease IS NOT NULL THEN
            UPDATE belfry.cursor c
               SET lease_id = p_lease, lease_until = v_now + f.lease_time, lease_end = v_upto,
                   ready_at = v_now + f.lease_time, attempts = c.attempts + 1
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO ready_at, attempts;
        ELSE
            UPDATE belfry.cursor c
               SET lease_id = NULL, lease_until = NULL, lease_end = NULL, attempts = 0, failures = 0,
                   committed = v_upto,
                   ready_at = least(v_redrives_ready, belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                                            f.delayed_processing, f.window_buffer, f.paused, NULL, NULL)),
                   skip = (SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(c.skip) AS s(seq) WHERE s.seq > v_upto),
                   consumed = c.consumed + v_taken, consumed_at = v_now
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO ready_at, attempts;
        END IF;
        IF NOT FOUND THEN -- the messages would be delivered without a lease
            RAISE EXCEPTION 'the cursor of group % in partition % is not where it was locked', p_group, k.partition_id;
        END IF;
        kind := 'leased';
        payload := CASE WHEN p_lease IS NULL AND (k.failures > 0 OR k.attempts > 0)
            THEN json_build_object('failures', k.failures, 'attempts', k.attempts) END;
        RETURN NEXT;
        RETURN QUERY
        SELECT 'message', k.partition_id, NULL::boolean, NULL::boolean, NULL::timestamptz, NULL::integer, m.seq, m.id,
               m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.encrypted
          FROM belfry.message m
         WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq <= v_upto
           AND (k.skip IS NULL OR m.seq <> ALL (k.skip))
         ORDER BY m.seq;
    END LOOP;
    CLOSE due;
    IF p_partition IS NULL AND (p_look OR NOT v_any_locked) THEN
        SELECT c.ready_at INTO v_due
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
         ORDER BY c.ready_at
         LIMIT 1;
    END IF;
    IF NOT v_any_locked THEN
        kind := 'group';
        created_at := v_now;
        SELECT q.deleted_at IS NULL, v_now + make_interval(secs => coalesce(nullif(q.lease_time, 0), 60))
          INTO group_exists, v_lease
          FROM belfry.queue q
         WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = p_group);
        group_exists := coalesce(group_exists, false);
        IF p_partition IS NOT NULL THEN
            SELECT c.ready_at <= v_now, c.ready_at INTO was_due, ready_at
              FROM belfry.cursor c
             WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC
             LIMIT 1;
        ELSIF v_due IS NOT NULL THEN
            was_due := true;
        ELSE
            SELECT c.ready_at INTO ready_at
              FROM belfry.cursor c
             WHERE c.group_id = p_group AND c.ready_at > v_now AND c.ready_at >= coalesce(p_next_floor, '-infinity')
             ORDER BY c.ready_at
             LIMIT 1;
        END IF;
        IF was_due THEN
            ready_at := NULL;
        END IF;
        RETURN NEXT;
    END IF;
    IF p_partition IS NULL AND (p_look OR NOT v_any_locked) THEN
        kind := 'floor';
        -- Not after the end of a lease that starts now: other servers do not announce leases.
        created_at := CASE WHEN NOT v_any_locked AND v_due IS NULL THEN least(ready_at, v_lease) END;
        ready_at := coalesce(v_due, v_now);
        RETURN NEXT;
    END IF;
END $$;
