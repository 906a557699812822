-- What was redriven and is not settled is a dead letter again; traces are lost.
INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
SELECT r.partition_id, r.seq, r.group_id, r.failures, 'Redriven, and not settled' FROM belfry.redrive r
ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
UPDATE belfry.cursor SET lease_id = NULL, lease_until = NULL, lease_end = NULL, ready_at = NULL WHERE lease_end < 0;
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $8 OR $3 <= $2 THEN NULL
        WHEN $6 = 0 AND $7 = 0 AND ($5 IS NULL OR $5 <= statement_timestamp()) THEN statement_timestamp()
        ELSE belfry.due_at($1, $2, $4, $6, $7)
    END
$$;
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
    v_hidden_from bigint;
    v_held boolean := false;
    k record;
    f record;
BEGIN
    IF p_lease IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    FOR k IN
        SELECT a.partition_id, a.committed, a.skip
          FROM (SELECT c.partition_id, c.committed, c.skip
                  FROM belfry.cursor c
                 WHERE p_partition IS NULL AND c.group_id = p_group AND c.ready_at <= v_now
                 ORDER BY c.ready_at
                 LIMIT p_partitions
                   FOR NO KEY UPDATE SKIP LOCKED) AS a
        UNION ALL
        -- coalesce keeps this off the index by ready_at, where it would walk
        -- everything that is due.
        SELECT o.partition_id, o.committed, o.skip
          FROM (SELECT c.partition_id, c.committed, c.skip
                  FROM belfry.cursor c
                 WHERE c.partition_id = p_partition AND c.group_id = p_group AND coalesce(c.ready_at <= v_now, false)
                   FOR NO KEY UPDATE SKIP LOCKED) AS o
    LOOP
        EXIT WHEN v_room = 0; -- whoever comes next may have the others
        SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
               q.paused OR g.paused AS paused, make_interval(secs => coalesce(nullif(q.lease_time, 0), 60)) AS lease_time,
               q.delayed_processing = 0 AND coalesce(p.visible_until <= v_now, true) AS all_visible,
               belfry.ready_at(k.partition_id, k.committed, p.last_seq, p.last_push_at, p.visible_until,
                               q.delayed_processing, q.window_buffer, q.paused OR g.paused) AS ready_at
          INTO f
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
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
        partition_id := k.partition_id;
        ready_at := f.ready_at;
        IF f.ready_at IS NULL OR f.ready_at > v_now THEN
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
                     LIMIT v_room) AS v
             WHERE v.visible_at > v_now OR v.created_at > v_now - make_interval(secs => f.delayed_processing);
        END IF;
        SELECT count(*), max(s.seq) INTO v_taken, v_upto
          FROM (SELECT m.seq
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq < v_hidden_from
                   AND (k.skip IS NULL OR m.seq <> ALL (k.skip))
                 ORDER BY m.seq
                 LIMIT least(f.last_seq - k.committed, v_room)) AS s;
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
                                              f.delayed_processing, f.window_buffer, f.paused),
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
DROP FUNCTION belfry.delete_message(bigint, text);
DROP FUNCTION belfry.redeliver(bigint, bigint, bigint, uuid, interval);
DROP FUNCTION belfry.redrive_letters(bigint[]);
DROP TABLE belfry.trace_name;
DROP TABLE belfry.trace;
DROP INDEX belfry.dead_letter_failed;
UPDATE belfry.cursor SET redrives = NULL WHERE redrives IS NOT NULL;
DROP TABLE belfry.redrive;
