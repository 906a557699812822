DROP FUNCTION belfry.wake_partitions(bigint[]);
CREATE OR REPLACE FUNCTION belfry.append(
    p_partitions bigint[], p_counts bigint[], p_visible_until timestamptz[], p_sealed bigint[],
    p_lanes integer[], p_nths integer[], p_ids uuid[], p_transactions text[], p_payloads text[],
    p_traces uuid[], p_subs text[], p_visible_at timestamptz[], p_encrypted boolean[], p_look boolean,
    p_bounded bigint[] DEFAULT NULL
) RETURNS TABLE (ord bigint, stored_id uuid) LANGUAGE plpgsql AS $$
DECLARE
    v_seqs bigint[];
    v_times timestamptz[];
    v_stored uuid[];
    v_counts bigint[] := p_counts;
    v_nths integer[] := p_nths;
BEGIN
    SELECT array_agg(held.last_seq), array_agg(greatest(held.last_push_at, clock_timestamp()))
      INTO v_seqs, v_times
      FROM (SELECT p.last_seq, p.last_push_at
              FROM belfry.partition p
              JOIN belfry.queue q ON q.id = p.queue_id
             WHERE p.id = ANY (p_partitions) AND NOT p.closed
               -- coalesce: no index of living queues may be the way in.
               AND coalesce(q.deleted_at, 'infinity') = 'infinity'
               AND q.encryption_enabled = (p.id = ANY (p_sealed))
               AND (p_bounded IS NULL OR (q.max_size > 0) = (p.id = ANY (p_bounded)))
             ORDER BY p.id
               FOR NO KEY UPDATE OF p) AS held;
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
      FROM unnest(p_partitions, v_counts, v_times, p_visible_until) AS k(id, n, at, visible_until)
     WHERE p.id = k.id AND k.n > 0;
END $$;

DROP FUNCTION belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean);
CREATE FUNCTION belfry.claim(p_group bigint, p_partition bigint, p_partitions bigint, p_batch bigint, p_lease uuid)
RETURNS TABLE (
    kind text, partition_id bigint, group_exists boolean, was_due boolean, ready_at timestamptz, attempts integer,
    seq bigint, id uuid, transaction_id text, trace_id uuid, payload json, created_at timestamptz, producer_sub text,
    encrypted boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := statement_timestamp();
    v_room bigint := p_batch;
    v_taken bigint;
    v_upto bigint;
    v_most bigint;
    v_more boolean;
    v_hidden_from bigint;
    v_held boolean := false;
    k record;
    f record;
    aside record;
BEGIN
    IF p_lease IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    FOR k IN
        SELECT a.partition_id, a.committed, a.skip, a.redrives, a.retry_at
          FROM (SELECT c.partition_id, c.committed, c.skip, c.redrives, c.retry_at
                  FROM belfry.cursor c
                 WHERE p_partition IS NULL AND c.group_id = p_group AND c.ready_at <= v_now
                 ORDER BY c.ready_at
                 LIMIT p_partitions
                   FOR NO KEY UPDATE SKIP LOCKED) AS a
        UNION ALL
        -- coalesce keeps this off the index by ready_at, where it would walk
        -- everything that is due.
        SELECT o.partition_id, o.committed, o.skip, o.redrives, o.retry_at
          FROM (SELECT c.partition_id, c.committed, c.skip, c.redrives, c.retry_at
                  FROM belfry.cursor c
                 WHERE c.partition_id = p_partition AND c.group_id = p_group AND coalesce(c.ready_at <= v_now, false)
                   FOR NO KEY UPDATE SKIP LOCKED) AS o
    LOOP
        EXIT WHEN v_room = 0; -- whoever comes next may have the others
        SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
               q.paused OR g.paused AS paused, make_interval(secs => coalesce(nullif(q.lease_time, 0), 60)) AS lease_time,
               q.delayed_processing = 0 AND coalesce(p.visible_until <= v_now, true) AS all_visible,
               q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries,
               belfry.ready_at(k.partition_id, k.committed, p.last_seq, p.last_push_at, p.visible_until,
                               q.delayed_processing, q.window_buffer, q.paused OR g.paused, k.retry_at, NULL) AS ready_at
          INTO f
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' -- see append
          JOIN belfry.consumer_group g ON g.id = p_group
         WHERE p.id = k.partition_id;
        CONTINUE WHEN NOT FOUND; -- it is being deleted
        IF NOT v_held THEN
            v_held := true;
            kind := 'group';
            group_exists := true;
            was_due := true;
            created_at := v_now;
            RETURN NEXT;
        END IF;
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
        END IF;
        partition_id := k.partition_id;
        v_most := v_room;
        v_more := false;
        IF (f.expire_after_seconds > 0 OR f.max_deliveries > 0) AND f.ready_at <= v_now THEN
            SELECT s.moved, s.committed, s.skip, s.expired, s.given_up, s.more, s.alone INTO aside
              FROM belfry.set_aside(k.partition_id, p_group, v_now, f.expire_after_seconds, f.dead_letter_expired,
                                    f.max_deliveries) AS s;
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
        ready_at := f.ready_at;
        IF f.ready_at IS NULL OR f.ready_at > v_now OR v_more THEN
            UPDATE belfry.cursor c
               SET ready_at = f.ready_at, lease_id = NULL, lease_until = NULL, lease_end = NULL
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group;
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
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group
            RETURNING c.ready_at, c.attempts INTO ready_at, attempts;
        ELSE
            UPDATE belfry.cursor c
               SET lease_id = NULL, lease_until = NULL, lease_end = NULL, attempts = 0, failures = 0,
                   committed = v_upto,
                   ready_at = belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, f.paused, NULL, NULL),
                   skip = (SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(c.skip) AS s(seq) WHERE s.seq > v_upto),
                   consumed = c.consumed + v_taken, consumed_at = v_now
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group
            RETURNING c.ready_at, c.attempts INTO ready_at, attempts;
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
    IF v_held THEN
        RETURN;
    END IF;
    kind := 'group';
    created_at := v_now;
    group_exists := coalesce((
        SELECT q.deleted_at IS NULL
          FROM belfry.queue q
         WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = p_group)), false);
    IF p_partition IS NULL THEN
        SELECT c.ready_at <= v_now, c.ready_at INTO was_due, ready_at
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.ready_at IS NOT NULL
         ORDER BY c.ready_at
         LIMIT 1;
    ELSE
        SELECT c.ready_at <= v_now, c.ready_at INTO was_due, ready_at
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition AND c.group_id = p_group;
    END IF;
    IF was_due THEN
        ready_at := NULL;
    END IF;
    RETURN NEXT;
END $$;

ALTER TABLE belfry.partition RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
ALTER TABLE belfry.partition SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
DROP INDEX belfry.partition_uid;
ALTER TABLE belfry.partition ADD UNIQUE (uid);
DROP INDEX belfry.partition_id;
ALTER TABLE belfry.partition ADD PRIMARY KEY (id);
DROP INDEX belfry.cursor_place;
ALTER TABLE belfry.cursor ADD PRIMARY KEY (partition_id, group_id);
