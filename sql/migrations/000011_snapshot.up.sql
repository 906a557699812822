-- What one held snapshot anywhere in the database does to a small hot row: its old
-- versions cannot be removed, and every one has its entry in every index. So what
-- runs often must not walk them. In an index, versions of one key are in the order
-- of their places, and new ones have the higher places while nothing is removed: a
-- walk from the high end that stops at the first one it sees takes one step,
-- however many there are. "id >= x AND id <= x ORDER BY id DESC LIMIT 1" is that
-- walk; with "id = x" the planner drops the order. A row that is locked is written
-- by its place (ctid).

-- An insert into a unique index looks at every version of its key, and every
-- update of a cursor is such an insert. A partition has one cursor for each
-- group all the same: cursors are made with a new partition, under a share lock
-- of the queue (open_partitions), or by join_group, under the update lock of the
-- queue, where they are missing.
ALTER TABLE belfry.cursor DROP CONSTRAINT cursor_pkey;
CREATE INDEX cursor_place ON belfry.cursor (partition_id, group_id);

-- For the same reason of a partition only the name is unique; its id is the
-- table's own number, its uid is drawn at random. That one is left: a push walks the
-- entries of its partition when the row leaves a full page, which more room in
-- pages makes rarer.
ALTER TABLE belfry.partition DROP CONSTRAINT partition_pkey;
CREATE INDEX partition_id ON belfry.partition (id);
ALTER TABLE belfry.partition DROP CONSTRAINT partition_uid_key;
CREATE INDEX partition_uid ON belfry.partition (uid);
ALTER TABLE belfry.partition SET (fillfactor = 40);

-- Takes the place of the function of migration 000006 (it is told there and in
-- 000003): partitions are reached by their newest version.
CREATE OR REPLACE FUNCTION belfry.append(
    p_partitions bigint[], p_counts bigint[], p_visible_until timestamptz[], p_sealed bigint[],
    p_lanes integer[], p_nths integer[], p_ids uuid[], p_transactions text[], p_payloads text[],
    p_traces uuid[], p_subs text[], p_visible_at timestamptz[], p_encrypted boolean[], p_look boolean,
    p_bounded bigint[] DEFAULT NULL
) RETURNS TABLE (ord bigint, stored_id uuid) LANGUAGE plpgsql AS $$
DECLARE
    v_places tid[];
    v_seqs bigint[];
    v_times timestamptz[];
    v_stored uuid[];
    v_counts bigint[] := p_counts;
    v_nths integer[] := p_nths;
BEGIN
    SELECT array_agg(held.ctid), array_agg(held.last_seq), array_agg(greatest(held.last_push_at, clock_timestamp()))
      INTO v_places, v_seqs, v_times
      FROM (SELECT k.id FROM unnest(p_partitions) AS k(id) ORDER BY k.id) AS k
     CROSS JOIN LATERAL (
            SELECT p.ctid, p.id, p.queue_id, p.closed, p.last_seq, p.last_push_at
              FROM belfry.partition p
             WHERE p.id >= k.id AND p.id <= k.id
             ORDER BY p.id DESC
             LIMIT 1
               FOR NO KEY UPDATE) AS held
     CROSS JOIN LATERAL (
            SELECT q.encryption_enabled, q.max_size FROM belfry.queue q
             -- coalesce: no index of living queues may be the way in.
             WHERE q.id = held.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' OFFSET 0) AS q
     WHERE NOT held.closed
       AND q.encryption_enabled = (held.id = ANY (p_sealed))
       AND (p_bounded IS NULL OR (q.max_size > 0) = (held.id = ANY (p_bounded)));
    IF cardinality(v_seqs) IS DISTINCT FROM cardinality(p_partitions) THEN
        PERFORM belfry.raise_partition_gone();
    END IF;

    IF p_look THEN
        SELECT array_agg(m.id ORDER BY i.ord), count(m.id) > 0
          INTO v_stored, p_look
          FROM unnest(p_lanes, p_transactions) WITH ORDINALITY AS i(lane, transaction_id, ord)
          LEFT JOIN LATERAL (
                SELECT m.id FROM belfry.message m
                 WHERE m.partition_id = p_partitions[i.lane] AND m.transaction_id = i.transaction_id
                 LIMIT 1) AS m ON true;
    END IF;
    IF p_look THEN
        -- Some are: they have no place, and the others move up.
        RETURN QUERY
        SELECT s.ord, s.id FROM unnest(v_stored) WITH ORDINALITY AS s(id, ord) WHERE s.id IS NOT NULL;
        SELECT array_agg(CASE WHEN i.id IS NULL THEN i.nth END ORDER BY i.ord)
          INTO v_nths
          FROM (SELECT n.id, n.ord, count(*) FILTER (WHERE n.id IS NULL) OVER (PARTITION BY n.lane ORDER BY n.ord) AS nth
                  FROM unnest(p_lanes, v_stored) WITH ORDINALITY AS n(lane, id, ord)) AS i;
        SELECT array_agg(coalesce(k.n, 0) ORDER BY k.lane)
          INTO v_counts
          FROM (SELECT n.lane, max(n.nth) AS n FROM unnest(p_lanes, v_nths) AS n(lane, nth) GROUP BY n.lane) AS k;
    END IF;

    INSERT INTO belfry.message
           (partition_id, seq, created_at, visible_at, id, trace_id, encrypted, transaction_id, producer_sub, payload)
    SELECT p_partitions[i.lane], v_seqs[i.lane] + i.nth, v_times[i.lane], i.visible_at, i.id, i.trace_id,
           coalesce(i.encrypted, false), i.transaction_id, i.producer_sub, i.payload::json
      FROM unnest(p_lanes, v_nths, p_ids, p_transactions, p_payloads, p_traces, p_subs, p_visible_at, p_encrypted)
           AS i(lane, nth, id, transaction_id, payload, trace_id, producer_sub, visible_at, encrypted)
     WHERE i.nth IS NOT NULL;

    UPDATE belfry.partition p
       SET last_seq = p.last_seq + k.n,
           last_push_at = k.at,
           visible_until = greatest(p.visible_until, k.visible_until)
      FROM unnest(v_places, v_counts, v_times, p_visible_until) AS k(place, n, at, visible_until)
     WHERE p.ctid = k.place AND k.n > 0;
END $$;

-- Takes the place of the function of migration 000008: it reaches rows by their
-- newest version, and what is due from where it is told to begin.
--
-- One pop: takes the lease of up to p_partitions due partitions of a group (or
-- of p_partition alone), the longest due first, and returns up to p_batch
-- messages from them. p_lease is the lease id; NULL consumes on delivery
-- (autoAck). A lease that a crash of the database forgets is harmless, so its
-- commit does not wait for the disk.
--
-- The caller knows, or NULL, that nothing is due before p_floor, and nothing
-- between now and p_next_floor. With p_look, or when nothing was held, it is told
-- anew.
--
-- What was redriven comes before the log; and where the queue has
-- expireAfterSeconds or maxDeliveries, what is not to be delivered is set aside
-- first, and a suspect is delivered alone.
--
-- Rows of several kinds, 'group' first:
--   'group'    always one: does the group still exist, was anything due, the
--              instant the next thing is due (when nothing was held) and, as
--              created_at, the database's clock
--   'leased'   a partition whose messages, the rows after it, are delivered
--   'redelivered'  the same, of messages that were redriven (see redeliver)
--   'aside'    before the others of a partition; seq: messages that expired,
--              attempts: messages given up
--   'message'  a delivered message
--   'tried'    a partition that was due, but no message was in sight: see
--              settle.sql
--   'moved'    a partition that is not poppable yet; its ready_at was put right
--   'floor'    of a whole group, the last row: nothing is due before ready_at; and
--              when nothing was held, nothing between now and created_at
--
-- It is a function, not one statement, because what it costs to start a plan of
-- that size is more than what a claim of one message costs to run. Each
-- statement sees what was committed before it began: once a cursor is locked,
-- the newest of its partition.
DROP FUNCTION belfry.claim(bigint, bigint, bigint, bigint, uuid);
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
    v_now timestamptz := statement_timestamp();
    v_floor timestamptz := coalesce(p_floor, '-infinity');
    v_due timestamptz;
    v_lease timestamptz;
    v_room bigint := p_batch;
    v_taken bigint;
    v_upto bigint;
    v_most bigint;
    v_more boolean;
    v_moved boolean; -- the cursor was written since it was locked
    v_hidden_from bigint;
    v_held boolean := false;
    due CURSOR FOR
        SELECT a.ctid, a.partition_id, a.committed, a.skip, a.redrives, a.retry_at
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at
                  FROM belfry.cursor c
                 WHERE p_partition IS NULL AND c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
                 ORDER BY c.ready_at
                 LIMIT p_partitions
                   FOR NO KEY UPDATE SKIP LOCKED) AS a
        UNION ALL
        -- coalesce keeps this off the index by ready_at, where it would walk
        -- everything that is due.
        SELECT o.ctid, o.partition_id, o.committed, o.skip, o.redrives, o.retry_at
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at
                  FROM belfry.cursor c
                 WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group
                   AND coalesce(c.ready_at <= v_now, false)
                 ORDER BY c.group_id DESC
                 LIMIT 1
                   FOR NO KEY UPDATE SKIP LOCKED) AS o;
    k record;
    f record;
    aside record;
BEGIN
    IF p_lease IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    -- Fetched one by one, so that it locks no more than it needs.
    OPEN due;
    LOOP
        EXIT WHEN v_room = 0; -- whoever comes next may have the others
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
          JOIN belfry.queue q ON q.id = p.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' -- see append
          JOIN belfry.consumer_group g ON g.id = p_group;
        CONTINUE WHEN NOT FOUND; -- it is being deleted
        IF NOT v_held THEN
            v_held := true;
            kind := 'group';
            group_exists := true;
            was_due := true;
            created_at := v_now;
            RETURN NEXT;
        END IF;
        v_moved := false;
        IF k.redrives > 0 AND NOT f.paused THEN
            -- What was put back comes first, in a delivery of its own.
            RETURN QUERY
            SELECT r.kind, r.partition_id, NULL::boolean, NULL::boolean, r.ready_at, r.attempts, r.seq, r.id, r.transaction_id,
                   r.trace_id, r.payload, r.created_at, r.producer_sub, r.encrypted
              FROM belfry.redeliver(p_group, k.partition_id, v_room, p_lease, f.lease_time) AS r;
            GET DIAGNOSTICS v_taken = ROW_COUNT;
            IF v_taken > 0 THEN
                v_room := v_room - (v_taken - 1); -- the first row is that of the partition
                CONTINUE;
            END IF;
            v_moved := true;
        END IF;
        partition_id := k.partition_id;
        v_most := v_room;
        v_more := false;
        IF (f.expire_after_seconds > 0 OR f.max_deliveries > 0) AND f.ready_at <= v_now THEN
            SELECT s.moved, s.committed, s.skip, s.expired, s.given_up, s.more, s.alone INTO aside
              FROM belfry.set_aside(k.partition_id, p_group, v_now, f.expire_after_seconds, f.dead_letter_expired,
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
                f.ready_at := belfry.ready_at(k.partition_id, aside.committed, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, f.paused, NULL, NULL);
                v_more := aside.more;
            END IF;
            IF aside.alone AND p_lease IS NOT NULL THEN
                v_most := 1;
            END IF;
        END IF;
        IF v_moved THEN
            SELECT c.ctid INTO k.ctid
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC
             LIMIT 1;
        END IF;
        ready_at := f.ready_at;
        IF f.ready_at IS NULL OR f.ready_at > v_now OR v_more THEN
            UPDATE belfry.cursor c
               SET ready_at = f.ready_at, lease_id = NULL, lease_until = NULL, lease_end = NULL
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
                     LIMIT v_most) AS v
             WHERE v.visible_at > v_now OR v.created_at > v_now - make_interval(secs => f.delayed_processing);
        END IF;
        SELECT count(*), max(s.seq) INTO v_taken, v_upto
          FROM (SELECT m.seq
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq < v_hidden_from
                   AND (k.skip IS NULL OR m.seq <> ALL (k.skip))
                 ORDER BY m.seq
                 LIMIT least(f.last_seq - k.committed, v_most)) AS s;
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
                   ready_at = belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, f.paused, NULL, NULL),
                   skip = (SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(c.skip) AS s(seq) WHERE s.seq > v_upto),
                   consumed = c.consumed + v_taken, consumed_at = v_now
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO ready_at, attempts;
        END IF;
        IF NOT FOUND THEN -- it would be delivered without a lease
            RAISE EXCEPTION 'the cursor of group % in partition % is not where it was locked', p_group, k.partition_id;
        END IF;
        kind := 'leased';
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
    IF p_partition IS NULL AND (p_look OR NOT v_held) THEN
        SELECT c.ready_at INTO v_due
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
         ORDER BY c.ready_at
         LIMIT 1;
    END IF;
    IF NOT v_held THEN
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
    IF p_partition IS NULL AND (p_look OR NOT v_held) THEN
        kind := 'floor';
        -- Not later than a lease that is taken now: others do not tell of theirs.
        created_at := CASE WHEN NOT v_held AND v_due IS NULL THEN least(ready_at, v_lease) END;
        ready_at := coalesce(v_due, v_now);
        RETURN NEXT;
    END IF;
END $$;

-- What wake.sql tells. A cursor is locked before it is judged, and found by its
-- newest version.
CREATE FUNCTION belfry.wake_partitions(p_partitions bigint[])
RETURNS TABLE (group_id bigint, partition_id bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_committed bigint;
    h record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR h IN
        SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, k.group_id, k.partition_id,
               k.last_seq, k.last_push_at, k.visible_until, k.delayed_processing, k.window_buffer
          FROM (SELECT w.id AS partition_id, g.id AS group_id, p.last_seq, p.last_push_at, p.visible_until,
                       q.delayed_processing, q.window_buffer
                  FROM unnest(p_partitions) AS w(id)
                 CROSS JOIN LATERAL (
                        SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until FROM belfry.partition p
                         WHERE p.id >= w.id AND p.id <= w.id
                         ORDER BY p.id DESC
                         LIMIT 1) AS p
                 CROSS JOIN LATERAL (
                        SELECT q.delayed_processing, q.window_buffer, q.paused
                          FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
                 CROSS JOIN LATERAL (
                        SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND NOT g.paused OFFSET 0) AS g
                 CROSS JOIN LATERAL (
                        SELECT c.ready_at, c.committed, c.redrives FROM belfry.cursor c
                         WHERE c.partition_id = w.id AND c.group_id >= g.id AND c.group_id <= g.id
                         ORDER BY c.group_id DESC
                         LIMIT 1) AS c
                 WHERE NOT q.paused AND c.ready_at IS NULL AND (c.committed < p.last_seq OR c.redrives > 0)
                 ORDER BY 1, 2) AS k
         CROSS JOIN LATERAL (
                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at FROM belfry.cursor c
                 WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
                 ORDER BY c.group_id DESC
                 LIMIT 1
                   FOR NO KEY UPDATE) AS c
    LOOP
        CONTINUE WHEN h.ready_at IS NOT NULL OR NOT (h.committed < h.last_seq OR coalesce(h.redrives, 0) > 0);
        v_committed := CASE WHEN h.start_at IS NULL THEN h.committed
                            WHEN h.last_push_at <= h.start_at THEN h.last_seq
                            ELSE greatest(h.committed, belfry.seq_at(h.partition_id, h.start_at)) END;
        UPDATE belfry.cursor c
           SET ready_at = belfry.ready_at(h.partition_id, v_committed, h.last_seq, h.last_push_at, h.visible_until,
                                          h.delayed_processing, h.window_buffer, false, h.retry_at, h.redrives),
               committed = v_committed,
               start_at = CASE WHEN v_committed >= h.last_seq THEN h.start_at END
         WHERE c.ctid = h.ctid
        RETURNING extract(epoch FROM c.ready_at - statement_timestamp())::float8 INTO ready_in;
        group_id := h.group_id;
        partition_id := h.partition_id;
        RETURN NEXT;
    END LOOP;
END $$;
