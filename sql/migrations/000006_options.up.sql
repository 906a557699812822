-- Options that become real: retryDelay (queue.retry_backoff_ms, 0 unless a caller
-- set it), maxSize, and the new expireAfterSeconds, deadLetterExpired and
-- maxDeliveries. What each does is told in pkg/queue/options.go.

ALTER TABLE belfry.queue
    ADD COLUMN retry_backoff_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN expire_after_seconds bigint NOT NULL DEFAULT 0,
    ADD COLUMN dead_letter_expired boolean NOT NULL DEFAULT false,
    ADD COLUMN max_deliveries bigint NOT NULL DEFAULT 0;

-- Takes the place of the function of migration 000003; p_bounded is new. It is
-- those of p_partitions whose queue has a maxSize, as the caller remembers; NULL:
-- the caller does not look at maxSize. BF001 also tells that this is not true any
-- more. All else is told in migration 000003.
DROP FUNCTION belfry.append(
    bigint[], bigint[], timestamptz[], bigint[], integer[], integer[], uuid[], text[], text[],
    uuid[], text[], timestamptz[], boolean[], boolean);
CREATE FUNCTION belfry.append(
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

-- Moves a cursor that its caller holds locked over what is not to be delivered:
-- messages older than p_expire_after seconds (0: none is), which are a prefix of
-- the log since created_at never falls, and a first message that was delivered
-- p_max_deliveries times (0: no limit). With p_dead_letter_expired the expired ones
-- are dead-lettered, 1000 a call; more says that others are left.
--
-- alone: the first message must be delivered by itself. A delivery that ended by
-- the end of its lease says that one of its messages may kill its consumers, not
-- which. So before the last attempt the batch is taken apart: up to its end, each
-- message is delivered alone, and only the one that is fatal uses up its attempts.
--
-- Counts: expired (by place in the log, so that it costs the same for a million;
-- what was deleted among them counts too, dead letters do not) and given_up.
CREATE FUNCTION belfry.set_aside(
    p_partition bigint, p_group bigint, p_now timestamptz,
    p_expire_after bigint, p_dead_letter_expired boolean, p_max_deliveries bigint
) RETURNS TABLE (moved boolean, committed bigint, skip bigint[], expired bigint, given_up integer, more boolean, alone boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_upto bigint;
    v_head bigint;
    c record;
BEGIN
    SELECT k.committed, coalesce(k.skip, '{}') AS skip, k.attempts, k.lease_end, coalesce(k.alone_until, 0) AS alone_until INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    committed := c.committed;
    expired := 0;
    given_up := 0;
    more := false;

    IF p_expire_after > 0 AND (
        SELECT m.created_at FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > c.committed
         ORDER BY m.seq
         LIMIT 1) <= p_now - make_interval(secs => p_expire_after)
    THEN
        v_upto := belfry.seq_at(p_partition, p_now - make_interval(secs => p_expire_after));
        IF p_dead_letter_expired THEN
            more := v_upto > c.committed + 1000;
            v_upto := least(v_upto, c.committed + 1000);
            INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
            SELECT p_partition, m.seq, p_group, CASE WHEN m.seq = c.committed + 1 THEN c.attempts ELSE 0 END,
                   'expired after ' || p_expire_after || ' s'
              FROM belfry.message m
             WHERE m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto AND m.seq <> ALL (c.skip)
             ORDER BY m.seq
            ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
            GET DIAGNOSTICS expired = ROW_COUNT;
        ELSE
            expired := v_upto - c.committed - (SELECT count(*) FROM unnest(c.skip) AS s(seq) WHERE s.seq <= v_upto);
        END IF;
        committed := v_upto;
    ELSIF p_max_deliveries > 0 AND c.attempts >= p_max_deliveries THEN
        SELECT m.seq INTO v_head
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > c.committed AND m.seq <> ALL (c.skip)
         ORDER BY m.seq
         LIMIT 1;
        IF v_head IS NOT NULL THEN
            INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
            VALUES (p_partition, v_head, p_group, c.attempts, 'delivered ' || c.attempts || ' times without success (maxDeliveries)')
            ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
            given_up := 1;
            committed := v_head;
        END IF;
    END IF;

    moved := committed > c.committed;
    IF moved THEN
        c.attempts := 0;
        c.skip := ARRAY (SELECT s.seq FROM unnest(c.skip) AS s(seq) WHERE s.seq > committed ORDER BY s.seq);
        UPDATE belfry.cursor k
           SET committed = set_aside.committed, skip = nullif(c.skip, '{}'), attempts = 0, failures = 0, retry_at = NULL,
               expired = k.expired + set_aside.expired
         WHERE k.partition_id = p_partition AND k.group_id = p_group;
    ELSIF c.attempts > 0 AND c.attempts = p_max_deliveries - 1 AND c.lease_end > greatest(c.alone_until, c.committed + 1) THEN
        c.alone_until := c.lease_end;
        UPDATE belfry.cursor k
           SET alone_until = c.lease_end
         WHERE k.partition_id = p_partition AND k.group_id = p_group;
    END IF;
    skip := nullif(c.skip, '{}');
    alone := p_max_deliveries > 0 AND (c.attempts >= p_max_deliveries - 1 OR c.alone_until > committed);
    RETURN NEXT;
END $$;
