-- Appends messages to partitions. The query store/append is the only caller.
--
-- By partition, distinct and ascending:
--   p_partitions, p_counts   The id, and the number of messages.
--   p_visible_until          The latest p_visible_at, or an empty array.
--   p_sealed, p_bounded      The ids of the partitions whose payloads are encrypted, and of those whose
--                            queue has a maxSize (NULL: not checked).
-- By message:
--   p_lanes, p_nths          The index in p_partitions, and the position in that partition, from 1.
--   p_ids, p_transactions, p_payloads
--   p_traces, p_subs, p_visible_at, p_encrypted, p_headers   May be empty.
-- p_check_duplicates: a transaction id may be stored already. The arrays have a transaction id at most
-- once for each partition.
--
-- Returns the index and the stored message id of each duplicate. Raises BF001 if the caller has outdated
-- facts: the partition is deleted or closed, or encryption or maxSize of the queue was switched.
--
-- Locks the partitions in id order until the commit. The holder of the locks assigns the next seqs. The
-- search for duplicates is a later statement, so its snapshot holds every stored message.
--
-- append is a function because a function keeps its plans: to start a plan of this size costs more than
-- to run it. It also replaces joins of messages with partitions by indexes of arrays.
CREATE FUNCTION belfry.append(
    p_partitions bigint[], p_counts bigint[], p_visible_until timestamptz[], p_sealed bigint[],
    p_lanes integer[], p_nths integer[], p_ids uuid[], p_transactions text[], p_payloads text[],
    p_traces uuid[], p_subs text[], p_visible_at timestamptz[], p_encrypted boolean[], p_check_duplicates boolean,
    p_bounded bigint[] DEFAULT NULL, p_headers text[] DEFAULT NULL
) RETURNS TABLE (ord bigint, stored_id uuid) LANGUAGE plpgsql AS $$
DECLARE
    v_ctids tid[];
    v_seqs bigint[];
    v_times timestamptz[];
    v_stored uuid[];
    v_counts bigint[] := p_counts;
    v_nths integer[] := p_nths;
BEGIN
    SELECT array_agg(held.ctid), array_agg(held.last_seq), array_agg(greatest(held.last_push_at, clock_timestamp()))
      INTO v_ctids, v_seqs, v_times
      FROM (SELECT k.id FROM unnest(p_partitions) AS k(id) ORDER BY k.id) AS k
     CROSS JOIN LATERAL (
            SELECT p.ctid, p.id, p.queue_id, p.closed, p.last_seq, p.last_push_at
              FROM belfry.partition p
             WHERE p.id >= k.id AND p.id <= k.id
             ORDER BY p.id DESC LIMIT 1
               FOR NO KEY UPDATE) AS held
     CROSS JOIN LATERAL (
            SELECT q.encryption_enabled, q.max_size FROM belfry.queue q
             -- coalesce: the planner must not use the partial indexes of live queues.
             WHERE q.id = held.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' OFFSET 0) AS q
     WHERE NOT held.closed
       AND q.encryption_enabled = (held.id = ANY (p_sealed))
       AND (p_bounded IS NULL OR (q.max_size > 0) = (held.id = ANY (p_bounded)));
    IF cardinality(v_seqs) IS DISTINCT FROM cardinality(p_partitions) THEN
        PERFORM belfry.raise_partition_gone();
    END IF;

    IF p_check_duplicates THEN
        SELECT array_agg(m.id ORDER BY i.ord), count(m.id) > 0
          INTO v_stored, p_check_duplicates
          FROM unnest(p_lanes, p_transactions) WITH ORDINALITY AS i(lane, transaction_id, ord)
          LEFT JOIN LATERAL (
                SELECT m.id FROM belfry.message m
                 WHERE m.partition_id = p_partitions[i.lane] AND m.transaction_id = i.transaction_id
                 LIMIT 1) AS m ON true;
    END IF;
    IF p_check_duplicates THEN
        -- Duplicates get no seq, and the other messages move up.
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
           (partition_id, seq, created_at, visible_at, id, trace_id, encrypted, transaction_id, producer_sub, headers, payload)
    SELECT p_partitions[i.lane], v_seqs[i.lane] + i.nth, v_times[i.lane], i.visible_at, i.id, i.trace_id,
           coalesce(i.encrypted, false), i.transaction_id, i.producer_sub, i.headers::json, i.payload::json
      FROM unnest(p_lanes, v_nths, p_ids, p_transactions, p_payloads, p_traces, p_subs, p_visible_at, p_encrypted,
                  p_headers)
           AS i(lane, nth, id, transaction_id, payload, trace_id, producer_sub, visible_at, encrypted, headers)
     WHERE i.nth IS NOT NULL;

    UPDATE belfry.partition p
       SET last_seq = p.last_seq + k.n,
           last_push_at = k.at,
           visible_until = greatest(p.visible_until, k.visible_until)
      FROM unnest(v_ctids, v_counts, v_times, p_visible_until) AS k(place, n, at, visible_until)
     WHERE p.ctid = k.place AND k.n > 0;
END $$;
