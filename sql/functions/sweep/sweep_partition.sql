-- One step of a sweep over one partition: deletes up to p_limit messages by the options of the queue and
-- moves cursors past them. pkg/engine/sweep calls it until more is false.
--
-- p_evict selects the rules, in this order:
--
--   true   'expired' (expireAfterSeconds): moves cursors and deletes nothing. With
--          deadLetterExpired the messages become dead letters, as in skip_undeliverable.
--          'evicted' (maxWaitTimeSeconds): deletes messages that a group has not consumed, or that
--          no group reads.
--   false  'retention' (retentionSeconds): deletes messages, consumed or not.
--          'completed' (completedRetentionSeconds): deletes messages behind every cursor.
--          Without retentionEnabled, only 'completed' applies, with the limit p_completed.
--
-- p_above: NULL, or a seq. The sweep then examines the swept messages above this seq again, because
-- earlier sweeps kept some of them.
--
-- Locks the queue (shared, so no group can be registered), the partition, and its cursors in group
-- order. So a live lease stays live until the commit. The messages of a live lease are not deleted, and
-- its cursor does not move.
--
-- A dead-lettered message is kept until its dead letters are settled or purged. 'retention' deletes it
-- with its dead letters once all of them are old enough and no other session has locked them.
--
-- created_at never decreases within a log, so the first p_limit messages of the range are enough. The
-- commit does not wait for the disk: the next sweep repeats a lost step.
--
-- Returns the counts by rule (sql/schema/queue_sweep.sql). more: another step may find work. seen: with
-- p_above, the p_above of the next step. groups, ready_in: the moved cursors, from move_cursors.
CREATE FUNCTION belfry.sweep_partition(p_queue bigint, p_partition bigint, p_evict boolean, p_limit bigint, p_above bigint, p_completed bigint DEFAULT 0)
RETURNS TABLE (
    skipped bigint, retention bigint, completed bigint, evicted bigint, expired bigint, unread bigint, more boolean, seen bigint,
    groups bigint[], ready_in float8[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_cutoff timestamptz;
    v_room bigint := p_limit;
    v_low bigint;
    v_held bigint;
    v_free bigint;
    v_start bigint;
    v_bound bigint;
    v_upto bigint;
    v_seen bigint;
    v_n bigint;
    v_seqs bigint[];
    v_kept bigint[];
    v_deleted bigint;
    v_unread bigint;
    v_gone bigint := 0;
    v_swept bigint;
    v_trimmed bigint;
    q record;
    p record;
    rule record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT k.retention_enabled, k.retention_seconds, k.max_wait_time_seconds, k.expire_after_seconds, k.dead_letter_expired,
           CASE WHEN k.retention_enabled THEN k.completed_retention_seconds ELSE p_completed END AS completed_retention_seconds
      INTO q
      FROM belfry.queue k
     WHERE k.id = p_queue AND k.deleted_at IS NULL
       FOR SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT k.last_seq, k.trimmed, k.swept
      INTO p
      FROM belfry.partition k
     WHERE k.id = p_partition AND k.queue_id = p_queue AND NOT k.closed
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    -- Reads the clock after the locks: a lease may end or be extended while this call waits for them.
    v_now := clock_timestamp();
    v_swept := greatest(p.swept, p.trimmed);
    retention := 0; completed := 0; evicted := 0; expired := 0; unread := 0; skipped := 0;
    more := false;
    groups := '{}'; ready_in := '{}';

    FOR rule IN
        SELECT r.name, r.seconds
          FROM (VALUES (1, 'expired', q.expire_after_seconds, p_evict),
                       (2, 'evicted', q.max_wait_time_seconds, p_evict),
                       (3, 'retention', q.retention_seconds, q.retention_enabled AND NOT p_evict),
                       (4, 'completed', q.completed_retention_seconds, NOT p_evict))
               AS r(nth, name, seconds, wanted)
         WHERE r.wanted AND r.seconds > 0
         ORDER BY r.nth
    LOOP
        SELECT min(c.committed), min(c.committed) FILTER (WHERE c.lease_until > v_now),
               min(c.committed) FILTER (WHERE coalesce(c.lease_until <= v_now, true))
          INTO v_low, v_held, v_free
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition;
        IF rule.name = 'completed' AND EXISTS (
            SELECT 1 FROM belfry.consumer_group g
             WHERE g.queue_id = p_queue AND g.joined_upto IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM belfry.cursor c WHERE c.partition_id = p_partition AND c.group_id = g.id)
        ) THEN
            v_low := 0; -- a group that joins has no cursor here yet
        END IF;
        v_cutoff := v_now - make_interval(secs => least(rule.seconds, 3153600000)); -- at most 100 years
        CONTINUE WHEN rule.name = 'expired' AND v_free IS NULL;
        v_start := greatest(p.trimmed, CASE
            WHEN rule.name = 'expired' THEN v_free
            WHEN rule.name = 'evicted' THEN v_low
            WHEN p_above IS NOT NULL THEN p_above
            ELSE v_swept END);
        v_bound := CASE WHEN p_above IS NULL THEN p.last_seq ELSE p.swept END;
        IF rule.name = 'completed' THEN
            v_bound := least(v_bound, coalesce(v_low, 0)); -- without a group, no message is completed
        END IF;
        IF p_above IS NOT NULL THEN
            v_room := p_limit;
        END IF;
        EXIT WHEN v_room <= 0;

        SELECT count(*), max(s.seq), max(s.seq) FILTER (WHERE s.created_at <= v_cutoff),
               array_agg(s.seq ORDER BY s.seq) FILTER (WHERE s.created_at <= v_cutoff)
          INTO v_n, v_seen, v_upto, v_seqs
          FROM (SELECT m.seq, m.created_at
                  FROM belfry.message m
                 WHERE m.partition_id = p_partition AND m.seq > v_start AND m.seq <= v_bound
                   AND (v_held IS NULL OR m.seq <= v_held OR rule.name = 'expired' OR NOT EXISTS (
                        SELECT 1 FROM belfry.cursor c
                         WHERE c.partition_id = p_partition AND c.lease_until > v_now
                           AND m.seq > c.committed AND m.seq <= c.lease_end))
                 ORDER BY m.seq LIMIT v_room) AS s;
        IF p_above IS NOT NULL AND v_n = p_limit THEN
            seen := least(seen, v_seen);
        END IF;
        CONTINUE WHEN v_upto IS NULL;
        v_room := v_room - cardinality(v_seqs);

        IF rule.name = 'expired' THEN
            IF q.dead_letter_expired THEN
                INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
                SELECT p_partition, m.seq, c.group_id, CASE WHEN m.seq = c.committed + 1 THEN c.attempts ELSE 0 END,
                       'expired after ' || q.expire_after_seconds || ' s'
                  FROM belfry.cursor c
                  JOIN belfry.consumer_group g ON g.id = c.group_id
                  JOIN belfry.message m ON m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto
                 WHERE c.partition_id = p_partition AND coalesce(c.lease_until <= v_now, true)
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                 ORDER BY c.group_id, m.seq
                ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
            END IF;
        ELSE
            v_kept := '{}';
            IF rule.name = 'retention' THEN
                SELECT coalesce(array_agg(d.seq), '{}') INTO v_kept
                  FROM belfry.dead_letter d
                 WHERE d.partition_id = p_partition AND d.seq > v_start AND d.seq <= v_upto AND d.failed_at > v_cutoff;
                DELETE FROM belfry.dead_letter l
                 WHERE l.id = ANY (ARRAY (
                        SELECT d.id FROM belfry.dead_letter d
                         WHERE d.partition_id = p_partition AND d.seq > v_start AND d.seq <= v_upto
                           AND d.seq = ANY (v_seqs) AND d.seq <> ALL (v_kept)
                           FOR UPDATE SKIP LOCKED));
            END IF;
            SELECT coalesce(array_agg(d.seq), '{}') INTO v_kept
              FROM (SELECT l.seq FROM belfry.dead_letter l
                     WHERE l.partition_id = p_partition AND l.seq > v_start AND l.seq <= v_upto
                    UNION ALL
                    SELECT r.seq FROM belfry.redrive r
                     WHERE r.partition_id = p_partition AND r.seq > v_start AND r.seq <= v_upto) AS d;
            WITH gone AS (
                DELETE FROM belfry.message m
                 WHERE m.partition_id = p_partition AND m.seq > v_start AND m.seq <= v_upto
                   AND (v_held IS NULL OR m.seq = ANY (v_seqs)) AND m.seq <> ALL (v_kept)
                RETURNING m.seq
            )
            SELECT count(*), count(*) FILTER (WHERE g.seq > coalesce(v_low, 0)) INTO v_deleted, v_unread FROM gone g;
            DELETE FROM belfry.trace t
             WHERE t.partition_id = p_partition AND t.seq > v_start AND t.seq <= v_upto
               AND (v_held IS NULL OR t.seq = ANY (v_seqs)) AND t.seq <> ALL (v_kept);
            DELETE FROM belfry.attempt a
             WHERE a.partition_id = p_partition AND a.seq > v_start AND a.seq <= v_upto
               AND (v_held IS NULL OR a.seq = ANY (v_seqs)) AND a.seq <> ALL (v_kept);
            DELETE FROM belfry.resent r
             WHERE r.partition_id = p_partition AND r.seq > v_start AND r.seq <= v_upto
               AND (v_held IS NULL OR r.seq = ANY (v_seqs)) AND r.seq <> ALL (v_kept);
            v_gone := v_gone + v_deleted;
            unread := unread + v_unread;
            CASE rule.name
                WHEN 'retention' THEN retention := retention + v_deleted;
                WHEN 'completed' THEN completed := completed + v_deleted;
                ELSE evicted := evicted + v_deleted;
            END CASE;
            IF rule.name <> 'evicted' THEN
                v_swept := greatest(v_swept, least(v_upto, coalesce(v_held, v_upto)));
            END IF;
        END IF;
        IF rule.name <> 'completed' THEN
            IF rule.name = 'expired' OR v_free < v_upto AND (v_held IS NOT NULL OR v_kept <> '{}') THEN
                SELECT count(*) INTO v_n
                  FROM belfry.cursor c
                  JOIN belfry.message m ON m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto
                 WHERE c.partition_id = p_partition AND coalesce(c.lease_until <= v_now, true)
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip);
                IF rule.name = 'expired' THEN
                    expired := expired + v_n;
                ELSE
                    skipped := skipped + v_n;
                END IF;
            END IF;
            SELECT groups || array_agg(m.group_id), sweep_partition.ready_in || array_agg(m.ready_in)
              INTO groups, ready_in
              FROM belfry.move_cursors(p_partition, v_upto, v_now) AS m;
        END IF;
    END LOOP;
    v_n := cardinality(groups);

    SELECT m.seq - 1 INTO v_trimmed
      FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.seq > p.trimmed
     ORDER BY m.seq LIMIT 1;
    v_trimmed := coalesce(v_trimmed, p.last_seq);
    v_swept := greatest(v_swept, v_trimmed);
    -- After a step without progress, another step would find nothing: the remaining messages must stay.
    more := p_above IS NULL AND v_room <= 0 AND (v_gone > 0 OR v_n > 0 OR v_swept > p.swept);
    IF v_gone > 0 OR v_trimmed > p.trimmed OR v_swept > p.swept THEN
        UPDATE belfry.partition k
           SET trimmed = v_trimmed, holes = k.holes + v_gone - (v_trimmed - p.trimmed), swept = v_swept
         WHERE k.id = p_partition;
    END IF;
    -- A seek or a new group may have put a cursor before the first stored message.
    SELECT groups || array_agg(m.group_id), sweep_partition.ready_in || array_agg(m.ready_in)
      INTO groups, ready_in
      FROM belfry.move_cursors(p_partition, v_trimmed, v_now) AS m;
    IF v_gone > 0 OR expired > 0 OR skipped > 0 THEN
        INSERT INTO belfry.queue_sweep AS t (queue_id, retention, completed, evicted, unread, expired, skipped)
        VALUES (p_queue, retention, completed, evicted, unread, expired, skipped)
        ON CONFLICT (queue_id) DO UPDATE
           SET retention = t.retention + excluded.retention, completed = t.completed + excluded.completed,
               evicted = t.evicted + excluded.evicted, unread = t.unread + excluded.unread,
               expired = t.expired + excluded.expired, skipped = t.skipped + excluded.skipped;
    END IF;
    RETURN NEXT;
END $$;
