-- Back to version 4: its functions, and no new columns. What was set aside stays
-- so; delays after failures end.
DROP FUNCTION belfry.append(
    bigint[], bigint[], timestamptz[], bigint[], integer[], integer[], uuid[], text[], text[],
    uuid[], text[], timestamptz[], boolean[], boolean, bigint[]);
CREATE FUNCTION belfry.append(
    p_partitions bigint[], p_counts bigint[], p_visible_until timestamptz[], p_sealed bigint[],
    p_lanes integer[], p_nths integer[], p_ids uuid[], p_transactions text[], p_payloads text[],
    p_traces uuid[], p_subs text[], p_visible_at timestamptz[], p_encrypted boolean[], p_look boolean
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
             WHERE p.id = ANY (p_partitions) AND NOT p.closed AND q.encryption_enabled = (p.id = ANY (p_sealed))
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

DROP FUNCTION belfry.set_aside(bigint, bigint, timestamptz, bigint, boolean, bigint);
ALTER TABLE belfry.queue
    DROP COLUMN IF EXISTS retry_backoff_ms, DROP COLUMN IF EXISTS expire_after_seconds,
    DROP COLUMN IF EXISTS dead_letter_expired, DROP COLUMN IF EXISTS max_deliveries;
