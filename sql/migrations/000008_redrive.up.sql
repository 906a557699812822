-- Dead letters that are put back, and what was noted about a message.

-- A dead letter that was put back for its group (redriven) and is not settled
-- yet. Its message stays in the log, at its place; the group's cursor has left
-- it behind or skips it, so claim delivers it from here. Rows change only while
-- the cursor's row is locked.
CREATE TABLE belfry.redrive (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    seq          bigint NOT NULL,
    -- Failed acks and deliveries so far; they go on from the dead letter's.
    failures     integer NOT NULL,
    attempts     integer NOT NULL,
    -- The lease of the latest delivery, live or not.
    lease_id     uuid,
    redriven_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (partition_id, group_id, seq)
);

-- Dead letters of a group by the instant they failed.
CREATE INDEX dead_letter_failed ON belfry.dead_letter (group_id, failed_at);

-- What a consumer noted about a message, and the names it gave the note.
CREATE TABLE belfry.trace (
    id           uuid PRIMARY KEY,
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    group_name   text NOT NULL,
    event_type   text NOT NULL,
    worker       text NOT NULL,
    names        text[] NOT NULL,
    data         json NOT NULL
);
CREATE INDEX trace_message ON belfry.trace (partition_id, seq, created_at, id);
CREATE TABLE belfry.trace_name (
    name       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    trace_id   uuid NOT NULL REFERENCES belfry.trace (id) ON DELETE CASCADE,
    PRIMARY KEY (name, created_at, trace_id)
);
CREATE INDEX trace_name_trace ON belfry.trace_name (trace_id);

-- Puts the dead letters with the ids p_letters back for their groups. One whose
-- group has no cursor any more stays; one whose message is gone is dropped. It
-- locks the cursors in the order of everybody before it looks, so a row counts
-- once whoever races.
--
-- Returns a row for each cursor: how many were put back, and the seconds until
-- it is ready (NULL: it is paused).
CREATE FUNCTION belfry.redrive_letters(p_letters bigint[])
RETURNS TABLE (group_id bigint, partition_id bigint, redriven bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_partitions bigint[];
    v_groups bigint[];
BEGIN
    SELECT array_agg(k.partition_id ORDER BY k.partition_id, k.group_id), array_agg(k.group_id ORDER BY k.partition_id, k.group_id)
      INTO v_partitions, v_groups
      FROM (SELECT DISTINCT d.partition_id, d.group_id FROM belfry.dead_letter d WHERE d.id = ANY (p_letters)) AS k;
    PERFORM c.partition_id
       FROM unnest(v_partitions, v_groups) AS k(partition_id, group_id)
       JOIN belfry.cursor c ON c.partition_id = k.partition_id AND c.group_id = k.group_id
      WHERE c.partition_id = ANY (v_partitions)
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE OF c;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM belfry.dead_letter d
         WHERE d.id = ANY (p_letters)
           AND (SELECT true FROM belfry.cursor c WHERE c.partition_id = d.partition_id AND c.group_id = d.group_id)
        RETURNING d.partition_id, d.group_id, d.seq, d.attempts,
                  (SELECT true FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq) AS there,
                  -- One that was put back already, and buried again after a seek, is put back once.
                  (SELECT true FROM belfry.redrive r
                    WHERE r.partition_id = d.partition_id AND r.group_id = d.group_id AND r.seq = d.seq) IS NULL AS fresh
    ), kept AS (
        INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts)
        SELECT g.partition_id, g.group_id, g.seq, g.attempts, g.attempts + 1
          FROM gone g
         WHERE g.there AND g.fresh
    ), counted AS (
        SELECT g.partition_id, g.group_id, count(*) AS n, count(*) FILTER (WHERE g.fresh) AS added
          FROM gone g
         WHERE g.there
         GROUP BY g.partition_id, g.group_id
    )
    UPDATE belfry.cursor c
       SET redrives = coalesce(c.redrives, 0) + k.added,
           ready_at = CASE WHEN q.paused OR g.paused OR c.lease_until > statement_timestamp() THEN c.ready_at
                           ELSE least(c.ready_at, statement_timestamp()) END
      FROM counted k
     CROSS JOIN LATERAL (SELECT p.queue_id FROM belfry.partition p WHERE p.id = k.partition_id OFFSET 0) AS p
     CROSS JOIN LATERAL (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = k.group_id OFFSET 0) AS g
     CROSS JOIN LATERAL (SELECT q.paused FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE c.partition_id = ANY (v_partitions) AND c.partition_id = k.partition_id AND c.group_id = k.group_id
    RETURNING c.group_id, c.partition_id, k.n, extract(epoch FROM c.ready_at - statement_timestamp())::float8;
END $$;

-- Delivers up to p_batch redriven messages of a cursor that the caller has
-- locked, in the order of the log: a row of kind 'redelivered' for the
-- partition, then the messages, each with its own attempts. Without p_lease
-- they are settled on delivery (autoAck). No rows: there are none after all, and
-- the cursor was told so.
CREATE FUNCTION belfry.redeliver(p_group bigint, p_partition bigint, p_batch bigint, p_lease uuid, p_lease_time interval)
RETURNS TABLE (
    kind text, partition_id bigint, ready_at timestamptz, attempts integer, seq bigint, id uuid, transaction_id text,
    trace_id uuid, payload json, created_at timestamptz, producer_sub text, encrypted boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := statement_timestamp();
    v_seqs bigint[];
    v_attempts integer[];
    v_settled bigint;
BEGIN
    SELECT array_agg(d.seq ORDER BY d.seq), array_agg(d.attempts + 1 ORDER BY d.seq) INTO v_seqs, v_attempts
      FROM (SELECT r.seq, r.attempts
              FROM belfry.redrive r
             WHERE r.partition_id = p_partition AND r.group_id = p_group
               AND (SELECT true FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq)
             ORDER BY r.seq
             LIMIT p_batch) AS d;
    -- Those whose message is gone lead nowhere.
    DELETE FROM belfry.redrive r
     WHERE r.partition_id = p_partition AND r.group_id = p_group
       AND (v_seqs IS NULL OR r.seq < v_seqs[cardinality(v_seqs)])
       AND (SELECT true FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) IS NULL;
    GET DIAGNOSTICS v_settled = ROW_COUNT;
    partition_id := p_partition;
    IF v_seqs IS NULL THEN
        UPDATE belfry.cursor c SET redrives = NULL WHERE c.partition_id = p_partition AND c.group_id = p_group;
        RETURN;
    ELSIF p_lease IS NOT NULL THEN
        UPDATE belfry.redrive r
           SET lease_id = p_lease, attempts = r.attempts + 1
         WHERE r.partition_id = p_partition AND r.group_id = p_group AND r.seq = ANY (v_seqs);
        UPDATE belfry.cursor c
           SET lease_id = p_lease, lease_until = v_now + p_lease_time, lease_end = -cardinality(v_seqs),
               ready_at = v_now + p_lease_time, redrives = c.redrives - v_settled
         WHERE c.partition_id = p_partition AND c.group_id = p_group
        RETURNING c.ready_at INTO ready_at;
    ELSE
        DELETE FROM belfry.redrive r
         WHERE r.partition_id = p_partition AND r.group_id = p_group AND r.seq = ANY (v_seqs);
        UPDATE belfry.cursor c
           SET lease_id = NULL, lease_until = NULL, lease_end = NULL, consumed_at = v_now,
               redrives = nullif(c.redrives - v_settled - cardinality(v_seqs), 0),
               ready_at = belfry.ready_at(p_partition, c.committed, p.last_seq, p.last_push_at, p.visible_until,
                                          q.delayed_processing, q.window_buffer, false, c.retry_at,
                                          (c.redrives - v_settled - cardinality(v_seqs))::integer)
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
         WHERE c.partition_id = p_partition AND c.group_id = p_group AND p.id = p_partition
        RETURNING c.ready_at INTO ready_at;
    END IF;
    kind := 'redelivered';
    RETURN NEXT;
    RETURN QUERY
    SELECT 'message', p_partition, NULL::timestamptz, CASE WHEN p_lease IS NULL THEN 0 ELSE d.attempts END, m.seq, m.id,
           m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.encrypted
      FROM unnest(v_seqs, v_attempts) AS d(seq, attempts)
     CROSS JOIN LATERAL (
            SELECT m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.encrypted
              FROM belfry.message m
             WHERE m.partition_id = p_partition AND m.seq = d.seq OFFSET 0) AS m
     ORDER BY d.seq;
END $$;

-- Deletes a message from its log, with its dead letters, redrives and traces. A
-- cursor that has not passed it skips it from now on, so its depth stays exact;
-- a lease that has nothing left to deliver ends. It locks the partition, then every
-- cursor of it in the order of everybody. A wake of the partition must
-- follow.
--
-- Returns a row for each cursor it touched: the lease that may hold the message
-- (or NULL), and the seconds until the cursor is ready (NULL: it is not); and, when
-- the message existed, one row of NULLs.
CREATE FUNCTION belfry.delete_message(p_partition bigint, p_transaction text)
RETURNS TABLE (group_id bigint, lease_id uuid, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_seq bigint;
    v_committed bigint;
    v_skip bigint[];
    v_one bigint;
    v_redriven bigint;
    v_ends boolean;
    k record;
BEGIN
    PERFORM p.id FROM belfry.partition p WHERE p.id = p_partition AND NOT p.closed FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN; -- the purge of its queue takes everything, in an order of its own
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    DELETE FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.transaction_id = p_transaction
    RETURNING m.seq INTO v_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE belfry.partition p SET holes = p.holes + 1 WHERE p.id = p_partition;
    DELETE FROM belfry.trace t WHERE t.partition_id = p_partition AND t.seq = v_seq;
    DELETE FROM belfry.dead_letter d
     WHERE d.partition_id = p_partition AND d.seq = v_seq
       AND d.group_id = ANY (ARRAY (
            SELECT g.id FROM belfry.consumer_group g
             WHERE g.queue_id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = p_partition)));
    FOR k IN
        SELECT c.group_id, c.committed, c.skip, c.lease_id, c.lease_end, c.redrives
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition
         ORDER BY c.group_id
    LOOP
        DELETE FROM belfry.redrive r WHERE r.partition_id = p_partition AND r.group_id = k.group_id AND r.seq = v_seq
        RETURNING CASE WHEN r.lease_id = k.lease_id AND k.lease_end < 0 THEN 2 ELSE 1 END INTO v_redriven;
        v_redriven := coalesce(v_redriven, 0);
        CONTINUE WHEN v_redriven = 0 AND k.committed >= v_seq;
        group_id := k.group_id;
        lease_id := k.lease_id;
        v_committed := k.committed;
        v_skip := NULL;
        FOR v_one IN
            SELECT DISTINCT s.seq FROM unnest(array_append(k.skip, v_seq)) AS s(seq) WHERE s.seq > k.committed ORDER BY s.seq
        LOOP
            IF v_one = v_committed + 1 THEN
                v_committed := v_one;
            ELSE
                v_skip := array_append(v_skip, v_one);
            END IF;
        END LOOP;
        v_ends := k.lease_id IS NOT NULL
              AND CASE WHEN k.lease_end < 0 THEN v_redriven = 2 AND k.lease_end = -1
                       ELSE v_committed >= k.lease_end END;
        UPDATE belfry.cursor c
           SET committed = v_committed, skip = v_skip, redrives = nullif(c.redrives - least(v_redriven, 1), 0),
               -- Another message is the first one now. It was delivered once at most, with
               -- its batch, and it did not fail.
               attempts = CASE WHEN v_committed = k.committed THEN c.attempts
                               WHEN v_committed >= coalesce(c.lease_end, 0) THEN 0
                               ELSE least(c.attempts, 1) END,
               retry_at = CASE WHEN v_committed = k.committed THEN c.retry_at END,
               failures = CASE WHEN v_committed > k.committed THEN 0 ELSE c.failures END,
               lease_id = CASE WHEN v_ends THEN NULL ELSE c.lease_id END,
               lease_until = CASE WHEN v_ends THEN NULL ELSE c.lease_until END,
               lease_end = CASE WHEN v_ends THEN NULL WHEN v_redriven = 2 THEN c.lease_end + 1 ELSE c.lease_end END,
               ready_at = CASE WHEN v_ends OR v_committed > k.committed AND c.lease_id IS NULL
                    THEN belfry.ready_at(p_partition, v_committed, p.last_seq, p.last_push_at, p.visible_until,
                                         q.delayed_processing, q.window_buffer, q.paused OR g.paused,
                                         CASE WHEN v_committed = k.committed THEN c.retry_at END,
                                         (c.redrives - least(v_redriven, 1))::integer)
                    ELSE c.ready_at END
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
          JOIN belfry.consumer_group g ON g.id = k.group_id
         WHERE c.partition_id = p_partition AND c.group_id = k.group_id AND p.id = p_partition
        RETURNING extract(epoch FROM c.ready_at - statement_timestamp())::float8 INTO ready_in;
        RETURN NEXT;
    END LOOP;
    group_id := NULL;
    lease_id := NULL;
    ready_in := NULL;
    RETURN NEXT;
END $$;

-- Takes the place of the function of migration 000004: what was redriven comes
-- before the log, and where the queue has expireAfterSeconds or maxDeliveries it
-- sets aside what is not to be delivered before it looks, and delivers a suspect
-- alone.
--
-- One pop: takes the lease of up to p_partitions due partitions of a group (or
-- of p_partition alone), the longest due first, and returns up to p_batch
-- messages from them. p_lease is the lease id; NULL consumes on delivery
-- (autoAck). A lease that a crash of the database forgets is harmless, so its
-- commit does not wait for the disk.
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
--
-- It is a function, not one statement, because what it costs to start a plan of
-- that size is more than what a claim of one message costs to run. Each
-- statement sees what was committed before it began: once a cursor is locked,
-- the newest of its partition.
CREATE OR REPLACE FUNCTION belfry.claim(p_group bigint, p_partition bigint, p_partitions bigint, p_batch bigint, p_lease uuid)
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

-- The rule of migration 000001 has no user any more.
DROP FUNCTION belfry.ready_at(bigint, bigint, bigint, timestamptz, timestamptz, bigint, bigint, boolean);
