-- Consumers that speak only SQL: belfry.pop and belfry.ack work inside the
-- consumer's own transaction, so that its effects and the acknowledgment commit
-- together. What that means for locks, long transactions and the invariants is
-- told in pkg/store/doc.go, "Consumers in SQL".
--
-- They run with the rights of the schema's owner, and with the plans that the
-- service's own sessions pin (pkg/postgres). belfry.claim turns synchronous_commit
-- off for a lease; that setting is among those that end with the function, so
-- that it never reaches the consumer's own commit.

-- Tells the service, at the commit, to look at a cursor. The text is that of
-- pkg/listen; nobody hears it in a session that has belfry.notify off, and then
-- who waits finds out at its dispatch.fallback_interval. What sets ready_at to
-- something that is not NULL calls it, also where that lies ahead: it may be over
-- by the commit, or lie below what others have looked at meanwhile (store/floors.go).
CREATE FUNCTION belfry.tell_ready(p_group bigint, p_partition bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) NOT IN ('off', 'false', 'no', '0') THEN
        PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/%s@0', p_group, p_partition));
    END IF;
END $$;

-- Registers a group, with its cursors. None is left asleep: no wake can follow the
-- commit of somebody else's transaction, so whatever pushes meanwhile is found by
-- the look that a ready_at of now asks for. Returns NULL for an unknown queue.
CREATE FUNCTION belfry.join_in_transaction(p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_group bigint;
    v_made bigint;
    k record;
BEGIN
    SELECT j.group_id, j.cursors_made INTO v_group, v_made FROM belfry.join_group(p_queue, p_group, p_partition, p_mode, p_start) AS j;
    IF v_made > 0 THEN
        FOR k IN
            UPDATE belfry.cursor c
               SET ready_at = clock_timestamp()
             WHERE c.group_id = v_group AND c.ready_at IS NULL AND c.start_at IS NULL
               AND c.partition_id = ANY (ARRAY (
                    SELECT p.id FROM belfry.partition p
                     WHERE p.queue_id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = v_group)))
            RETURNING c.partition_id
        LOOP
            PERFORM belfry.tell_ready(v_group, k.partition_id);
        END LOOP;
    END IF;
    RETURN v_group;
END $$;

-- In a procedure or a DO block statement_timestamp() stands still at its beginning:
-- a consumer that loops there would never see what is pushed later, and its leases
-- would count from then. A claim goes by the instant at which it begins, and so do
-- the redeliveries in it.
CREATE FUNCTION pg_temp.rewrite(p_function regprocedure, VARIADIC p_pairs text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_text text := pg_get_functiondef(p_function);
BEGIN
    FOR i IN 1 .. cardinality(p_pairs) BY 2 LOOP
        IF strpos(v_text, p_pairs[i]) = 0 THEN
            RAISE EXCEPTION '% is not the function it was: it has no %', p_function, p_pairs[i];
        END IF;
        v_text := replace(v_text, p_pairs[i], p_pairs[i + 1]);
    END LOOP;
    EXECUTE v_text;
END $$;
SELECT pg_temp.rewrite('belfry.redeliver(bigint, bigint, bigint, uuid, interval)',
                       'p_lease_time interval)', 'p_lease_time interval, p_now timestamp with time zone)',
                       'v_now timestamptz := statement_timestamp();', 'v_now timestamptz := p_now;'),
       pg_temp.rewrite('belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean)',
                       'f.lease_time) AS r;', 'f.lease_time, v_now) AS r;',
                       'v_now timestamptz := statement_timestamp();', 'v_now timestamptz := clock_timestamp();');
DROP FUNCTION belfry.redeliver(bigint, bigint, bigint, uuid, interval);

CREATE FUNCTION belfry.check_names(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(p_queue, '') = '' OR octet_length(p_queue) > 255 OR coalesce(p_group, '') = '' OR octet_length(p_group) > 255 THEN
        RAISE EXCEPTION 'the name of a queue or a consumer group has 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Registers a consumer group on a queue, which its first pop would do as well:
-- mode 'all' starts at the first message, 'new' behind the last one stored,
-- 'timestamp' behind the last one stored at or before start_at. What is registered
-- already stays. Until the transaction ends nobody can make a partition of this
-- queue, so it is best done in one of its own.
CREATE FUNCTION belfry.subscribe(queue text, consumer_group text, mode text DEFAULT 'all', start_at timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    PERFORM belfry.check_names(queue, consumer_group);
    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') OR (mode = 'timestamp') <> (start_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''all'', ''new'' or ''timestamp''; start_at goes with ''timestamp'' alone.';
    ELSIF start_at > clock_timestamp() THEN
        RAISE EXCEPTION 'start_at lies in the future' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Register the group through the HTTP API, or use mode ''new''.';
    ELSIF belfry.join_in_transaction(queue, consumer_group, NULL, mode, start_at) IS NULL THEN
        RAISE EXCEPTION 'there is no queue %', quote_literal(queue) USING ERRCODE = 'undefined_object',
            HINT = 'A queue is made by the first message pushed to it, or by configuring it through the HTTP API.';
    END IF;
END $$;

-- Takes up to batch messages from up to partitions partitions that have something
-- due for the group, the longest due first, or from the one named. Returns no rows
-- when nothing is due, or when all that is due is in the hands of others.
--
-- Each partition has a lease of its own, which the rows from it share. Popped and acknowledged in one transaction, the
-- messages are held by its lock: if it rolls back, or its connection dies, they
-- are due again at once and were never delivered. Committed, the lease holds them
-- for the queue's leaseTime, and belfry.ack in a later transaction fails once that
-- is over.
--
-- attempt counts the committed deliveries of the first message, this one included.
CREATE FUNCTION belfry.pop(
    queue text, consumer_group text DEFAULT '__QUEUE_MODE__', batch integer DEFAULT 1, partition text DEFAULT NULL,
    partitions integer DEFAULT 1
) RETURNS TABLE (
    lease uuid, partition_name text, seq bigint, message_id uuid, transaction_id text, trace_id uuid, payload json,
    created_at timestamptz, attempt integer
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_queue record;
    v_group bigint;
    v_partition bigint;
    v_lease uuid;
    v_room bigint := pop.batch;
    v_places integer := pop.partitions;
    v_got bigint;
    v_kept boolean;
    v_now timestamptz := clock_timestamp();
    k record;
    r record;
BEGIN
    PERFORM belfry.check_names(pop.queue, pop.consumer_group);
    IF coalesce(pop.batch, 0) NOT BETWEEN 1 AND 10000 OR coalesce(pop.partitions, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value';
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
    SELECT g.id INTO v_group
      FROM belfry.consumer_group g
     WHERE g.queue_id = v_queue.id AND g.name = pop.consumer_group
       AND (g.whole_queue OR EXISTS (SELECT 1 FROM belfry.cursor c WHERE c.partition_id = v_partition AND c.group_id = g.id));
    IF NOT FOUND THEN
        v_group := belfry.join_in_transaction(pop.queue, pop.consumer_group, pop.partition, 'all', NULL);
    END IF;

    -- Chosen without a lock, and locked one by one with one that is let go again
    -- where nothing is taken: this transaction may last, and what it holds by
    -- accident would be missing to others.
    FOR k IN
        SELECT d.partition_id, p.name
          FROM (SELECT a.partition_id, a.committed, a.redrives
                  FROM (SELECT c.partition_id, c.committed, c.redrives
                          FROM belfry.cursor c
                         WHERE v_partition IS NULL AND c.group_id = v_group AND c.ready_at <= v_now
                         ORDER BY c.ready_at) AS a
                UNION ALL
                -- coalesce keeps this off the index by ready_at.
                SELECT c.partition_id, c.committed, c.redrives
                  FROM belfry.cursor c
                 WHERE c.partition_id = v_partition AND c.group_id = v_group
                   AND coalesce(c.ready_at <= v_now, false)) AS d
         CROSS JOIN LATERAL (SELECT p.last_seq, p.name FROM belfry.partition p WHERE p.id = d.partition_id OFFSET 0) AS p
         WHERE p.last_seq > d.committed OR d.redrives > 0
    LOOP
        EXIT WHEN v_room <= 0 OR v_places <= 0;
        v_got := 0;
        v_kept := false;
        v_lease := gen_random_uuid();
        BEGIN
            FOR r IN
                SELECT c.kind, c.attempts, c.seq, c.id, c.transaction_id, c.trace_id, c.payload, c.created_at, c.encrypted
                  FROM belfry.claim(v_group, k.partition_id, 1, v_room, v_lease) AS c
            LOOP
                CASE r.kind
                WHEN 'leased', 'redelivered' THEN
                    attempt := r.attempts;
                WHEN 'aside' THEN
                    v_kept := true;
                WHEN 'message' THEN
                    IF r.encrypted THEN
                        PERFORM belfry.raise_sealed(pop.queue);
                    END IF;
                    v_got := v_got + 1;
                    lease := v_lease;
                    partition_name := k.name;
                    seq := r.seq;
                    message_id := r.id;
                    transaction_id := r.transaction_id;
                    trace_id := r.trace_id;
                    payload := r.payload;
                    created_at := r.created_at;
                    attempt := coalesce(r.attempts, attempt);
                    RETURN NEXT;
                ELSE -- it is told of the group, or that nothing is there
                END CASE;
            END LOOP;
            IF v_got = 0 AND v_kept THEN
                -- Messages were set aside (expired, or delivered too often).
                UPDATE belfry.cursor c
                   SET ready_at = clock_timestamp()
                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group AND c.ready_at IS NULL;
                PERFORM belfry.tell_ready(v_group, k.partition_id);
            ELSIF v_got = 0 THEN
                RAISE EXCEPTION 'nothing was taken' USING ERRCODE = 'BF012';
            END IF;
        EXCEPTION WHEN SQLSTATE 'BF012' THEN
            NULL; -- and with it the lock
        END;
        v_room := v_room - v_got;
        IF v_got > 0 THEN
            v_places := v_places - 1;
            PERFORM belfry.tell_ready(v_group, k.partition_id);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION belfry.raise_sealed(p_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'queue % seals its payloads, and the database has no key', quote_literal(p_queue) USING ERRCODE = 'BF011',
        HINT = 'Consume it through the HTTP API.';
END $$;

-- What is said when a lease is not the caller's any more.
CREATE FUNCTION belfry.raise_lease_lost(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lease % is over, or was never given', p_lease USING ERRCODE = 'BF010',
        DETAIL = 'Its messages are due again, and may have been delivered to somebody else.',
        HINT = 'Roll back and pop again. Work that takes longer than the queue''s leaseTime calls belfry.extend(lease, seconds) in time.';
END $$;

-- Says what became of messages that belfry.pop gave out; message_ids NULL: of all
-- the lease still holds. With the lease gone the transaction fails with SQLSTATE
-- BF010, so that its effects never commit beside those of another consumer.
--
--   completed  done, with everything before it in the partition
--   failed     delivered again from the first of them on, after the queue's
--              retryDelay; out of retries: a dead letter
--   retry      delivered again, and no failure is counted
--   dlq        a dead letter now
--
-- The rules are those of pkg/store (decideAck) for a call whose messages all have
-- the same status. Returns how many messages it was said of; 0: of none the lease
-- still holds.
CREATE FUNCTION belfry.ack(lease uuid, message_ids uuid[] DEFAULT NULL, status text DEFAULT 'completed', error text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    k record;
BEGIN
    IF status IS NULL OR status NOT IN ('completed', 'success', 'failed', 'retry', 'dlq') THEN
        RAISE EXCEPTION 'the status % is not known', quote_nullable(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''completed'', ''failed'', ''retry'' or ''dlq''.';
    END IF;
    -- There is one: belfry.pop gives each partition a lease of its own.
    IF (SELECT count(*) FROM belfry.cursor c WHERE c.lease_id = ack.lease) > 1 THEN
        RAISE EXCEPTION 'lease % covers several partitions', lease USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The HTTP API gave it out; acknowledge it there.';
    END IF;
    SELECT c.partition_id, c.group_id, c.lease_until > clock_timestamp() AS live, c.lease_end INTO k
      FROM belfry.cursor c
     WHERE c.lease_id = ack.lease
     LIMIT 1
       FOR NO KEY UPDATE;
    IF k.live IS NOT TRUE THEN
        PERFORM belfry.raise_lease_lost(lease);
    ELSIF k.lease_end < 0 THEN
        RETURN belfry.ack_redelivery(k.partition_id, k.group_id, message_ids, status, error);
    END IF;
    RETURN belfry.ack_log(k.partition_id, k.group_id, message_ids, status, error);
END $$;

-- belfry.ack for the lease of one cursor, which the caller has locked.
--
-- ready_at is never left NULL: a push that commits before this transaction does
-- would not see the cursor asleep, and no wake can follow this commit. A cursor
-- with nothing left is due instead, and whoever looks, the service that is told at
-- the commit or the next pop, puts it to sleep with a wake behind it.
CREATE FUNCTION belfry.ack_log(p_partition bigint, p_group bigint, p_ids uuid[], p_status text, p_error text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_seqs bigint[];
    v_committed bigint;
    v_skip bigint[];
    v_dead boolean;
    v_failures integer;
    v_attempts integer;
    v_release boolean := false;
    v_rest interval;
    v_retry_at timestamptz;
    c record;
    f record;
BEGIN
    SELECT k.committed, coalesce(k.skip, '{}') AS skip, k.lease_id, k.lease_end, k.failures, k.attempts, k.retry_at, k.redrives INTO c
      FROM belfry.cursor k WHERE k.partition_id = p_partition AND k.group_id = p_group;
    SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer, q.retry_limit, q.retry_backoff_ms,
           q.paused OR g.paused AS paused INTO f
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group
     WHERE p.id = p_partition;
    IF NOT FOUND THEN -- it is being deleted
        PERFORM belfry.raise_lease_lost(c.lease_id);
    END IF;
    SELECT coalesce(array_agg(m.seq ORDER BY m.seq), '{}') INTO v_seqs
      FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= c.lease_end AND m.seq <> ALL (c.skip)
       AND (p_ids IS NULL OR m.id = ANY (p_ids));
    v_committed := c.committed;
    v_skip := c.skip;
    v_failures := c.failures;
    v_attempts := c.attempts;
    v_dead := p_status = 'dlq' OR p_status = 'failed' AND c.failures >= f.retry_limit;
    IF p_status IN ('completed', 'success') AND p_ids IS NULL THEN
        v_committed := c.lease_end;
    ELSIF v_seqs = '{}' THEN
        RETURN 0;
    ELSIF p_status IN ('completed', 'success') THEN
        v_committed := v_seqs[cardinality(v_seqs)];
    ELSIF v_dead THEN
        v_skip := v_skip || v_seqs;
        INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
        SELECT p_partition, s.seq, p_group, c.failures, coalesce(nullif(p_error, ''), 'Retries exhausted')
          FROM unnest(v_seqs) AS s(seq)
         ORDER BY s.seq
        ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
    ELSE
        v_release := true;
    END IF;
    WHILE v_committed + 1 = ANY (v_skip) LOOP
        v_committed := v_committed + 1;
    END LOOP;
    IF v_committed > c.committed THEN
        v_failures := 0;
        v_attempts := CASE WHEN v_committed >= c.lease_end THEN 0 ELSE least(c.attempts, 1) END;
    ELSE
        v_retry_at := c.retry_at;
    END IF;
    IF p_status = 'failed' AND v_release THEN
        v_failures := v_failures + 1;
        IF f.retry_backoff_ms > 0 THEN
            -- Twice as long after each, up to an hour, a fifth more or less.
            v_rest := least(f.retry_backoff_ms * power(2, least(v_failures - 1, 40)), greatest(3600000, f.retry_backoff_ms))
                * (0.8 + 0.4 * random()) * interval '1 millisecond';
            v_retry_at := clock_timestamp() + v_rest;
        END IF;
    END IF;
    v_release := v_release OR v_committed >= c.lease_end;
    UPDATE belfry.cursor k
       SET committed = v_committed, failures = v_failures, attempts = v_attempts, retry_at = v_retry_at,
           skip = (SELECT array_agg(s.seq ORDER BY s.seq) FROM unnest(v_skip) AS s(seq) WHERE s.seq > v_committed),
           consumed = k.consumed + v_committed - c.committed,
           consumed_at = CASE WHEN v_committed > c.committed THEN clock_timestamp() ELSE k.consumed_at END,
           lease_id = CASE WHEN v_release THEN NULL ELSE k.lease_id END,
           lease_until = CASE WHEN v_release THEN NULL ELSE k.lease_until END,
           lease_end = CASE WHEN v_release THEN NULL ELSE k.lease_end END,
           ready_at = CASE WHEN v_release
               THEN coalesce(belfry.ready_at(p_partition, v_committed, f.last_seq, f.last_push_at, f.visible_until, f.delayed_processing,
                                             f.window_buffer, f.paused, v_retry_at, c.redrives), clock_timestamp())
               ELSE k.ready_at END
     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    IF v_release THEN
        PERFORM belfry.tell_ready(p_group, p_partition);
    END IF;
    RETURN cardinality(v_seqs);
END $$;

-- belfry.ack for a lease of redriven messages: each stands for itself.
CREATE FUNCTION belfry.ack_redelivery(p_partition bigint, p_group bigint, p_ids uuid[], p_status text, p_error text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_said bigint := 0;
    v_settled integer := 0;
    v_release boolean := false;
    c record;
    f record;
    r record;
BEGIN
    SELECT k.committed, k.lease_id, k.lease_end, k.retry_at, k.redrives INTO c
      FROM belfry.cursor k WHERE k.partition_id = p_partition AND k.group_id = p_group;
    SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer, q.retry_limit,
           q.paused OR g.paused AS paused INTO f
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group
     WHERE p.id = p_partition;
    IF NOT FOUND THEN
        PERFORM belfry.raise_lease_lost(c.lease_id);
    END IF;
    FOR r IN
        SELECT d.seq, d.failures
          FROM belfry.redrive d
         WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.lease_id = c.lease_id
           AND (p_ids IS NULL OR (SELECT m.id FROM belfry.message m WHERE m.partition_id = p_partition AND m.seq = d.seq) = ANY (p_ids))
         ORDER BY d.seq
    LOOP
        v_said := v_said + 1;
        IF p_status = 'dlq' OR p_status = 'failed' AND r.failures >= f.retry_limit THEN
            INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
            VALUES (p_partition, r.seq, p_group, r.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END,
                    coalesce(nullif(p_error, ''), 'Retries exhausted'))
            ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
        ELSIF p_status IN ('failed', 'retry') THEN
            v_release := true;
            UPDATE belfry.redrive d
               SET failures = d.failures + CASE p_status WHEN 'failed' THEN 1 ELSE 0 END
             WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = r.seq;
            CONTINUE;
        END IF;
        DELETE FROM belfry.redrive d WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = r.seq;
        v_settled := v_settled + 1;
    END LOOP;
    IF v_said = 0 THEN
        RETURN 0;
    END IF;
    v_release := v_release OR -c.lease_end - v_settled <= 0;
    UPDATE belfry.cursor k
       SET redrives = nullif(k.redrives - v_settled, 0),
           consumed_at = CASE WHEN v_settled > 0 THEN clock_timestamp() ELSE k.consumed_at END,
           lease_id = CASE WHEN v_release THEN NULL ELSE k.lease_id END,
           lease_until = CASE WHEN v_release THEN NULL ELSE k.lease_until END,
           lease_end = CASE WHEN v_release THEN NULL ELSE k.lease_end + v_settled END,
           ready_at = CASE WHEN v_release
               THEN coalesce(belfry.ready_at(p_partition, c.committed, f.last_seq, f.last_push_at, f.visible_until, f.delayed_processing,
                                             f.window_buffer, f.paused, c.retry_at, (c.redrives - v_settled)::integer), clock_timestamp())
               ELSE k.ready_at END
     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    IF v_release THEN
        PERFORM belfry.tell_ready(p_group, p_partition);
    END IF;
    RETURN v_said;
END $$;

-- Prolongs a lease to now + seconds, never shortening it, and returns when it
-- ends. Fails as belfry.ack does when it is over.
CREATE FUNCTION belfry.extend(lease uuid, seconds bigint) RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v_until timestamptz;
    v_group bigint;
    v_partition bigint;
BEGIN
    IF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease is prolonged by 1 second to a year' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE belfry.cursor c
       SET lease_until = greatest(c.lease_until, clock_timestamp() + make_interval(secs => seconds)),
           ready_at = greatest(c.lease_until, clock_timestamp() + make_interval(secs => seconds))
     WHERE c.lease_id = extend.lease AND c.lease_until > clock_timestamp()
       AND EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.id = c.group_id)
    RETURNING c.lease_until, c.group_id, c.partition_id INTO v_until, v_group, v_partition;
    IF v_until IS NULL THEN
        PERFORM belfry.raise_lease_lost(lease);
    END IF;
    PERFORM belfry.tell_ready(v_group, v_partition);
    RETURN v_until;
END $$;

-- Puts cursors to sleep that are due although nothing is left, as belfry.ack leaves
-- them. It skips those that somebody holds: who does leaves them right, or due.
-- Ascending by (partition, group). A wake of the partitions must follow its commit.
CREATE FUNCTION belfry.settle_told(p_partitions bigint[], p_groups bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_settled bigint := 0;
    k record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR k IN
        SELECT w.partition_id, w.group_id FROM unnest(p_partitions, p_groups) AS w(partition_id, group_id) ORDER BY 1, 2
    LOOP
        PERFORM c.group_id FROM belfry.cursor c
          WHERE c.partition_id = k.partition_id AND c.group_id = k.group_id AND c.ready_at <= statement_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- A newer snapshot than that of the lock.
        UPDATE belfry.cursor c
           SET committed = p.last_seq, skip = NULL, attempts = 0, failures = 0, ready_at = NULL,
               lease_id = NULL, lease_until = NULL, lease_end = NULL
          FROM belfry.partition p
         WHERE c.partition_id = k.partition_id AND c.group_id = k.group_id AND p.id = k.partition_id
           AND c.ready_at <= statement_timestamp() AND c.redrives IS NULL
           AND NOT EXISTS (
                SELECT 1 FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > c.committed
                   AND (c.skip IS NULL OR m.seq <> ALL (c.skip)));
        IF FOUND THEN
            v_settled := v_settled + 1;
        END IF;
    END LOOP;
    RETURN v_settled;
END $$;
