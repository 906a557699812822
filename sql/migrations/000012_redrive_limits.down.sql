-- Back to redrives that maxDeliveries does not bound.
CREATE OR REPLACE FUNCTION belfry.redeliver(p_group bigint, p_partition bigint, p_batch bigint, p_lease uuid, p_lease_time interval)
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

CREATE OR REPLACE FUNCTION belfry.delete_message(p_partition bigint, p_transaction text)
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

CREATE OR REPLACE FUNCTION belfry.partition_counts(p_partition bigint, p_last_seq bigint, p_trimmed bigint, p_holes bigint)
RETURNS TABLE (total bigint, pending bigint, processing bigint, completed bigint, dead bigint, done bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.total,
           least(coalesce(c.waiting, s.alive), s.alive),
           least(coalesce(c.remaining, s.alive), s.alive) - least(coalesce(c.waiting, s.alive), s.alive),
           s.alive - least(coalesce(c.remaining, s.alive), s.alive),
           s.total - s.alive,
           coalesce(c.done, p_trimmed)
      FROM (SELECT d.seqs, p_last_seq - p_trimmed - p_holes AS total,
                   greatest(p_last_seq - p_trimmed - p_holes - cardinality(d.seqs), 0) AS alive
              FROM (SELECT ARRAY (SELECT DISTINCT l.seq FROM belfry.dead_letter l
                                   WHERE l.partition_id = p_partition AND l.seq > p_trimmed) AS seqs
                    OFFSET 0) AS d
            OFFSET 0) AS s
     CROSS JOIN LATERAL (
            SELECT max(p_last_seq - k.place
                       - CASE WHEN k.nothing_gone THEN 0 ELSE
                         (SELECT count(DISTINCT g.seq) FROM unnest(k.skip || s.seqs) AS g(seq) WHERE g.seq > k.place) END + k.redriven) AS remaining,
                   max(p_last_seq - k.leased
                       - CASE WHEN k.nothing_gone THEN 0 ELSE
                         (SELECT count(DISTINCT g.seq) FROM unnest(k.skip || s.seqs) AS g(seq) WHERE g.seq > k.leased) END + k.redriven) AS waiting,
                   min(k.place) AS done
              FROM (SELECT c.skip, coalesce(c.redrives, 0) AS redriven, c.skip IS NULL AND s.seqs = '{}' AS nothing_gone,
                           greatest(c.committed, p_trimmed) AS place,
                           greatest(c.committed, p_trimmed,
                                    CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_end END) AS leased
                      FROM belfry.cursor c
                     WHERE c.partition_id = p_partition) AS k
            OFFSET 0) AS c
$$;

ALTER TABLE belfry.redrive DROP COLUMN deliveries;
