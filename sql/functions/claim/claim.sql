-- Claims for one pop of a group: takes leases on up to p_partitions due partitions and returns up to p_batch
-- messages. The partition that has been due the longest comes first. The query store/claim is the only
-- caller besides belfry.pop.
--
--   p_partition   Claim only from this partition. NULL: from any partition.
--   p_lease       The id of the leases. NULL: consume the messages on delivery (autoAck).
--   p_floor       No cursor of the group has a ready_at before this instant. NULL: unknown.
--   p_next_floor  No cursor becomes ready between now and this instant. NULL: unknown.
--   p_look        Return due_floor and next_floor, even if the call locked a cursor.
--   p_bytes       The limit for the bytes of the messages in the answer; see delivery_bytes. The first
--                 message may exceed the limit. NULL: no limit.
--   p_alone       This is the only claim of the transaction; see hold_drained.
--
-- A delivery ends before the next message that the cursor skips. So the delivery is one range of the
-- log, and its cost does not grow with the number of skipped messages.
--
-- sql/schema/claim_row.sql describes the result. due_floor and next_floor are set only if p_partition is
-- NULL, and either p_look is true or the call locked no cursor.
--
-- If the cursor has a lease that ended without an ack, the claim stores the failed delivery; see
-- record_lost_lease.
--
-- A limited group delivers only what belfry.admit allows. A refused claim leaves the cursor due.
--
-- Locks the cursor of each partition it delivers from, with SKIP LOCKED. A commit with a lease does not
-- wait for the disk: a lost lease only makes the messages due earlier. Each statement has a new
-- snapshot, so a statement after the lock of a cursor sees the newest version of the partition. The
-- claim is a function because starting a statement of this size costs more than claiming one message.
CREATE FUNCTION belfry.claim(
    p_group bigint, p_partition bigint, p_partitions bigint, p_batch bigint, p_lease uuid,
    p_floor timestamptz DEFAULT NULL, p_next_floor timestamptz DEFAULT NULL, p_look boolean DEFAULT false,
    p_bytes bigint DEFAULT NULL, p_alone boolean DEFAULT false
) RETURNS SETOF belfry.claim_row LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_floor timestamptz := coalesce(p_floor, '-infinity');
    v_due timestamptz;
    v_lease timestamptz;
    v_room bigint := p_batch;
    v_bytes_left bigint := p_bytes;
    v_bytes bigint;
    v_taken bigint;
    v_upto bigint;
    v_limit bigint;
    v_more boolean;
    v_moved boolean; -- a statement wrote the cursor after its lock
    v_gap int8range; -- a range of seqs that the cursor does not skip
    v_first bigint;
    v_end bigint;
    v_redrives_ready timestamptz;
    v_any_locked boolean := false;
    v_attempt integer;
    v_admitted record;
    v_refused boolean := false;
    v_limited_until timestamptz; -- The limits of the group end the claim, and refuse the next one before this instant.
    due CURSOR FOR
        SELECT a.ctid, a.partition_id, a.committed, a.skip, a.redrives, a.retry_at, a.failures, a.attempts, a.start_at, a.lease_id
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at, c.lease_id
                  FROM belfry.cursor c
                 WHERE p_partition IS NULL AND c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
                 ORDER BY c.ready_at LIMIT p_partitions
                   FOR NO KEY UPDATE SKIP LOCKED) AS a
        UNION ALL
        SELECT o.ctid, o.partition_id, o.committed, o.skip, o.redrives, o.retry_at, o.failures, o.attempts, o.start_at, o.lease_id
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at, c.lease_id
                  FROM (SELECT n.ctid AS at, n.ready_at
                          FROM belfry.cursor n
                         WHERE n.partition_id = p_partition AND n.group_id >= p_group AND n.group_id <= p_group
                         ORDER BY n.group_id DESC LIMIT 1) AS newest
                  JOIN belfry.cursor c ON c.ctid = newest.at
                 WHERE newest.ready_at <= v_now AND coalesce(c.ready_at <= v_now, false) -- coalesce: avoids the index cursor_ready
                   FOR NO KEY UPDATE OF c SKIP LOCKED) AS o;
    k record;
    sizes CURSOR (upto bigint) FOR
        SELECT m.seq, belfry.delivery_bytes(m.payload, m.transaction_id, m.producer_sub, m.headers, true) AS bytes
          FROM belfry.message m
         WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq <= upto
         ORDER BY m.seq;
    f record;
    next record;
    skipped record;
    r belfry.claim_row;
BEGIN
    -- An earlier wake may have turned synchronous_commit off. If an autoAck commit is lost, a second delivery follows.
    PERFORM set_config('synchronous_commit', CASE WHEN p_lease IS NULL THEN 'on' ELSE 'off' END, true);
    -- One FETCH for each cursor, so the call locks no more cursors than it needs.
    OPEN due;
    LOOP
        EXIT WHEN v_room = 0; -- other pops can claim the other partitions
        FETCH due INTO k;
        EXIT WHEN NOT FOUND;
        SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
               q.paused OR g.paused AS all_paused, g.limits_id, p.paused, make_interval(secs => coalesce(nullif(q.lease_time, 0), 60)) AS lease_time,
               q.delayed_processing = 0 AND coalesce(p.visible_until <= v_now, true) AS all_visible,
               q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries,
               CASE WHEN NOT p.paused THEN
                   belfry.ready_at(k.partition_id, k.committed, p.last_seq, p.last_push_at, p.visible_until,
                                   q.delayed_processing, q.window_buffer, k.retry_at, NULL) END AS ready_at
          INTO f
          FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until, p.paused
                  FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC LIMIT 1) AS p
          JOIN belfry.queue q ON q.id = p.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' -- coalesce: see append
          JOIN belfry.consumer_group g ON g.id = p_group;
        CONTINUE WHEN NOT FOUND; -- the partition or the group is being deleted
        IF f.all_paused THEN
            CLOSE due;
            r := NULL;
            r.item := 1;
            r.partition_id := k.partition_id;
            r.outcome := 5;
            RETURN NEXT r;
            r := NULL;
            r.item := 3;
            r.database_now := v_now;
            r.group_exists := true;
            r.was_due := false;
            RETURN NEXT r;
            RETURN;
        END IF;
        v_any_locked := true;
        IF k.lease_id IS NOT NULL THEN -- a due cursor has only a lease that has ended
            PERFORM belfry.record_lost_lease(k.partition_id, p_group, k.ctid, f.limits_id);
        END IF;
        v_moved := false;
        v_redrives_ready := NULL;
        IF k.redrives > 0 AND NOT f.paused THEN
            -- Redriven messages are delivered first, without messages of the log.
            v_taken := 0;
            v_bytes := 0;
            v_limit := v_room;
            IF f.limits_id IS NOT NULL THEN
                v_admitted := belfry.admit(f.limits_id, p_group, k.partition_id, p_lease, least(v_room, k.redrives), false, v_now);
                v_limit := v_admitted.room;
                v_limited_until := v_admitted.next_at;
                v_refused := v_limit = 0;
                EXIT WHEN v_refused;
            END IF;
            FOR r IN
                SELECT d.*
                  FROM belfry.redeliver(p_group, k.partition_id, v_limit, p_lease, f.lease_time, v_now, v_bytes_left, v_room < p_batch) AS d
            LOOP
                RETURN NEXT r;
                v_taken := v_taken + 1;
                v_bytes := v_bytes + coalesce(belfry.delivery_bytes(r.payload, r.transaction_id, r.producer_sub, r.headers, true), 0);
            END LOOP;
            IF v_taken > 0 THEN
                v_room := v_room - (v_taken - 1); -- the first row describes the partition, not a message
                v_bytes_left := v_bytes_left - v_bytes;
                IF f.limits_id IS NOT NULL AND v_taken > 1 THEN
                    v_limited_until := belfry.spend(f.limits_id, p_group, v_taken - 1);
                    EXIT WHEN v_limited_until IS NOT NULL;
                END IF;
                CONTINUE;
            END IF;
            v_moved := true;
            SELECT CASE WHEN c.redrives > 0 THEN belfry.redrives_ready_at(c.partition_id, c.group_id) END INTO v_redrives_ready
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group;
            EXIT WHEN v_redrives_ready <= v_now; -- the redriven messages exceed v_bytes_left
        END IF;
        IF k.start_at IS NOT NULL THEN
            f.ready_at := NULL;
        END IF;
        r := NULL;
        r.item := 1;
        r.partition_id := k.partition_id;
        v_limit := v_room;
        v_more := false;
        IF (f.expire_after_seconds > 0 OR f.max_deliveries > 0) AND f.ready_at <= v_now THEN
            SELECT s.moved, s.committed, s.skip, s.expired, s.given_up, s.skipped, s.blocked, s.more, s.alone INTO skipped
              FROM belfry.skip_undeliverable(k.partition_id, p_group, v_now, f.expire_after_seconds, f.dead_letter_expired,
                                    f.max_deliveries) AS s;
            v_moved := true;
            IF skipped.moved THEN
                r.expired := skipped.expired;
                r.given_up := skipped.given_up;
                r.skipped := skipped.skipped;
                k.committed := skipped.committed;
                k.skip := skipped.skip;
                k.failures := 0;
                k.attempts := 0;
                f.ready_at := belfry.ready_at(k.partition_id, skipped.committed, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, NULL, NULL);
                v_more := skipped.more;
            ELSIF skipped.blocked THEN
                f.ready_at := belfry.blocked();
            END IF;
            IF skipped.alone AND p_lease IS NOT NULL THEN
                v_limit := 1;
            END IF;
        END IF;
        IF v_moved THEN
            SELECT c.ctid INTO k.ctid
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1;
        END IF;
        IF f.ready_at IS NULL OR f.ready_at > v_now OR v_more THEN
            UPDATE belfry.cursor c
               SET ready_at = least(f.ready_at, v_redrives_ready), lease_id = NULL, lease_until = NULL, lease_end = NULL
             WHERE c.ctid = k.ctid;
            r.outcome := 3;
            r.ready_at := least(f.ready_at, v_redrives_ready);
            r.needs_wake := r.ready_at IS NULL OR v_redrives_ready IS NOT NULL;
            RETURN NEXT r;
            CONTINUE;
        END IF;

        v_first := k.committed + 1;
        v_end := 9223372036854775807;
        IF k.skip IS NOT NULL THEN
            FOR v_gap IN SELECT unnest(int8multirange(int8range(v_first, v_end)) - k.skip) LOOP
                v_first := lower(v_gap);
                v_end := upper(v_gap);
                EXIT WHEN EXISTS (
                    SELECT FROM belfry.message m WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end);
            END LOOP;
        END IF;
        IF NOT f.all_visible THEN
            SELECT coalesce(min(v.seq), v_end) INTO v_end
              FROM (SELECT m.seq, m.created_at, m.visible_at
                      FROM belfry.message m
                     WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end
                     ORDER BY m.seq LIMIT v_limit) AS v
             WHERE v.visible_at > v_now OR v.created_at > v_now - make_interval(secs => f.delayed_processing);
        END IF;
        SELECT count(*), max(s.seq), sum(s.bytes) INTO v_taken, v_upto, v_bytes
          FROM (SELECT m.seq, belfry.delivery_bytes(m.payload, m.transaction_id, m.producer_sub, m.headers, false) AS bytes
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end
                 ORDER BY m.seq
                 LIMIT least(f.last_seq - k.committed, v_limit)) AS s;
        IF v_taken = 0 THEN
            r.outcome := 4;
            RETURN NEXT r;
            CONTINUE;
        END IF;
        IF v_bytes > v_bytes_left AND p_batch > 1 THEN
            -- FETCH and not FOR: FOR would read the sizes of more messages than the answer has.
            v_taken := 0;
            v_bytes := 0;
            OPEN sizes (v_upto);
            LOOP
                FETCH sizes INTO next;
                EXIT WHEN NOT FOUND OR v_bytes + next.bytes > v_bytes_left AND (v_taken > 0 OR v_room < p_batch);
                v_taken := v_taken + 1;
                v_bytes := v_bytes + next.bytes;
                v_upto := next.seq;
            END LOOP;
            CLOSE sizes;
            IF v_taken = 0 THEN -- the cursor stays due
                IF v_moved THEN
                    r.outcome := 3;
                    RETURN NEXT r;
                END IF;
                EXIT;
            END IF;
        END IF;
        IF f.limits_id IS NOT NULL THEN
            v_admitted := belfry.admit(f.limits_id, p_group, k.partition_id, p_lease, v_taken, true, v_now);
            v_limited_until := v_admitted.next_at;
            v_refused := v_admitted.room = 0;
            IF v_refused THEN -- the cursor stays due
                IF r.expired IS NOT NULL OR r.given_up IS NOT NULL OR r.skipped IS NOT NULL THEN
                    r.outcome := 3;
                    RETURN NEXT r;
                END IF;
                EXIT;
            END IF;
            IF v_admitted.room < v_taken THEN
                v_taken := v_admitted.room;
                SELECT m.seq INTO v_upto
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end
                 ORDER BY m.seq OFFSET v_taken - 1 LIMIT 1;
            END IF;
        END IF;
        v_bytes_left := v_bytes_left - v_bytes;
        v_room := v_room - v_taken;

        IF p_lease IS NOT NULL THEN
            UPDATE belfry.cursor c
               SET lease_id = p_lease, lease_until = v_now + f.lease_time, lease_end = v_upto,
                   ready_at = v_now + f.lease_time, attempts = c.attempts + 1
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO r.ready_at, v_attempt;
        ELSE
            UPDATE belfry.cursor c
               SET lease_id = NULL, lease_until = NULL, lease_end = NULL, attempts = 0, failures = 0,
                   committed = v_upto,
                   ready_at = least(v_redrives_ready, belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                                            f.delayed_processing, f.window_buffer, NULL, NULL)),
                   skip = belfry.skip_beyond(c.skip, v_upto),
                   consumed = c.consumed + v_taken, consumed_at = v_now
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO r.ready_at, v_attempt;
            r.needs_wake := CASE WHEN v_redrives_ready IS NOT NULL THEN true
                                 WHEN r.ready_at IS NULL THEN NOT p_alone OR NOT belfry.hold_drained(k.partition_id, v_upto) END;
        END IF;
        IF NOT FOUND THEN -- without this error, the messages would be delivered without a lease
            RAISE EXCEPTION 'the update did not find the locked cursor of group % in partition %', p_group, k.partition_id;
        END IF;
        r.outcome := 1;
        IF p_lease IS NULL AND (k.failures > 0 OR k.attempts > 0) THEN
            r.undo := json_build_object('failures', k.failures, 'attempts', k.attempts);
        END IF;
        RETURN NEXT r;
        RETURN QUERY
        SELECT 2::smallint, k.partition_id, NULL::smallint, NULL::timestamptz, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::json,
               m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.headers, m.encrypted, v_attempt,
               NULL::boolean, NULL::boolean, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
          FROM belfry.message m
         WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq <= v_upto
         ORDER BY m.seq;
        EXIT WHEN v_limited_until IS NOT NULL;
    END LOOP;
    CLOSE due;
    IF v_limited_until IS NOT NULL THEN
        IF v_refused AND k.lease_id IS NOT NULL THEN -- its failed delivery is stored above
            UPDATE belfry.cursor c SET lease_id = NULL, lease_until = NULL, lease_end = NULL WHERE c.ctid = k.ctid;
        END IF;
        r := NULL;
        r.item := 1;
        r.partition_id := k.partition_id;
        r.outcome := 6;
        r.ready_at := v_limited_until;
        RETURN NEXT r;
    END IF;
    IF p_partition IS NULL AND (p_look OR NOT v_any_locked) THEN
        SELECT c.ready_at INTO v_due
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
         ORDER BY c.ready_at LIMIT 1;
    END IF;
    r := NULL;
    r.item := 3;
    r.database_now := v_now;
    r.group_exists := v_any_locked;
    r.was_due := v_any_locked AND v_limited_until IS NULL;
    IF NOT v_any_locked THEN
        SELECT q.deleted_at IS NULL, v_now + make_interval(secs => coalesce(nullif(q.lease_time, 0), 60))
          INTO r.group_exists, v_lease
          FROM belfry.queue q
         WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = p_group);
        r.group_exists := coalesce(r.group_exists, false);
        IF p_partition IS NOT NULL THEN
            SELECT c.ready_at <= v_now, c.ready_at INTO r.was_due, r.next_ready_at
              FROM belfry.cursor c
             WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1;
            r.group_exists := r.group_exists AND FOUND; -- no cursor: the partition was removed
            r.was_due := coalesce(r.was_due, false);
        ELSIF v_due IS NOT NULL THEN
            r.was_due := true;
        ELSE
            SELECT c.ready_at INTO r.next_ready_at
              FROM belfry.cursor c
             WHERE c.group_id = p_group AND c.ready_at > v_now AND c.ready_at >= coalesce(p_next_floor, '-infinity')
             ORDER BY c.ready_at LIMIT 1;
        END IF;
        IF r.was_due THEN
            r.next_ready_at := NULL;
        END IF;
    END IF;
    IF p_partition IS NULL AND (p_look OR NOT v_any_locked) THEN
        r.due_floor := coalesce(v_due, v_now);
        IF NOT v_any_locked AND v_due IS NULL THEN
            -- At most the end of a lease that begins now, because other servers do not announce their leases.
            r.next_floor := least(r.next_ready_at, v_lease);
        END IF;
    END IF;
    RETURN NEXT r;
END $$;
