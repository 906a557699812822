-- The functions as they were.
CREATE OR REPLACE FUNCTION pg_temp.rewrite(p_function regprocedure, VARIADIC p_pairs text[]) RETURNS void LANGUAGE plpgsql AS $$
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

SELECT pg_temp.rewrite('belfry.pop(text, text, integer, text, integer)',
    $r$            v_places := v_places - 1;
            PERFORM belfry.tell_ready(v_group, k.partition_id);
        END IF;
    END LOOP;
    IF v_floor = '-infinity' AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM belfry.keep_floor(v_kept_as, v_lowest, v_now, coalesce(v_took, clock_timestamp() - v_now));
    END IF;
$r$,
    $r$            v_places := v_places - 1;
            PERFORM belfry.tell_ready(v_group, k.partition_id);
        END IF;
    END LOOP;
$r$,
    $r$        BEGIN
            -- What somebody holds is passed over here: belfry.claim would look for
            -- another version of it, through all that there are. What has changed since
            -- the look is not.
            PERFORM FROM belfry.cursor c WHERE c.ctid = k.at FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                PERFORM FROM belfry.cursor c WHERE c.ctid = k.at;
                CONTINUE WHEN FOUND;
            END IF;
            FOR r IN
$r$,
    $r$        BEGIN
            FOR r IN
$r$,
    $r$                SELECT o.at, o.partition_id, o.committed, o.redrives, o.ready_at
                  FROM (SELECT c.ctid AS at, c.partition_id, c.committed, c.redrives, c.ready_at
                          FROM belfry.cursor c
                         WHERE c.partition_id = v_partition AND c.group_id >= v_group AND c.group_id <= v_group
                           AND coalesce(c.ready_at <= v_now, false)
                         ORDER BY c.group_id DESC
                         LIMIT 1) AS o) AS d
         CROSS JOIN LATERAL (SELECT p.last_seq, p.name FROM belfry.partition p
                              WHERE p.id >= d.partition_id AND p.id <= d.partition_id
                              ORDER BY p.id DESC
                              LIMIT 1) AS p
    LOOP
        IF v_took IS NULL THEN
            v_took := clock_timestamp() - v_now;
            v_lowest := k.ready_at;
        END IF;
        EXIT WHEN v_room <= 0 OR v_places <= 0;
        CONTINUE WHEN k.filled IS NOT TRUE;
$r$,
    $r$                SELECT c.partition_id, c.committed, c.redrives
                  FROM belfry.cursor c
                 WHERE c.partition_id = v_partition AND c.group_id = v_group
                   AND coalesce(c.ready_at <= v_now, false)) AS d
         CROSS JOIN LATERAL (SELECT p.last_seq, p.name FROM belfry.partition p WHERE p.id = d.partition_id OFFSET 0) AS p
         WHERE p.last_seq > d.committed OR d.redrives > 0
    LOOP
        EXIT WHEN v_room <= 0 OR v_places <= 0;
$r$,
    $r$        SELECT d.at, d.partition_id, p.name, d.ready_at, p.last_seq > d.committed OR d.redrives > 0 AS filled
          FROM (SELECT a.at, a.partition_id, a.committed, a.redrives, a.ready_at
                  FROM (SELECT c.ctid AS at, c.partition_id, c.committed, c.redrives, c.ready_at
                          FROM belfry.cursor c
                         WHERE v_partition IS NULL AND c.group_id = v_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
$r$,
    $r$        SELECT d.partition_id, p.name
          FROM (SELECT a.partition_id, a.committed, a.redrives
                  FROM (SELECT c.partition_id, c.committed, c.redrives
                          FROM belfry.cursor c
                         WHERE v_partition IS NULL AND c.group_id = v_group AND c.ready_at <= v_now
$r$,
    $r$    IF v_partition IS NULL THEN
        v_kept_as := 'belfry.floor_' || v_group;
        v_floor := belfry.session_floor(v_kept_as, v_now);
    END IF;
    -- Chosen without a lock,$r$,
    $r$    -- Chosen without a lock,$r$,
    $r$    k record;
    r record;
    v_kept_as text; -- the setting with this session's floor
    v_floor timestamptz := '-infinity';
    v_lowest timestamptz;
    v_took interval;
BEGIN
$r$,
    $r$    k record;
    r record;
BEGIN
$r$);

SELECT pg_temp.rewrite('belfry.ack_log(bigint, bigint, uuid[], text, text)',
    $r$     WHERE k.ctid = c.ctid;
    IF NOT FOUND THEN -- it would not be said of them
        RAISE EXCEPTION 'the cursor of group % in partition % is not where it was locked', p_group, p_partition;
    END IF;
    IF v_release THEN
$r$,
    $r$     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    IF v_release THEN
$r$,
    $r$      FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p
             WHERE p.id >= p_partition AND p.id <= p_partition
             ORDER BY p.id DESC
             LIMIT 1) AS p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group;
$r$,
    $r$      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group
     WHERE p.id = p_partition;
$r$,
    $r$      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id >= p_group AND k.group_id <= p_group
     ORDER BY k.group_id DESC
     LIMIT 1;
$r$,
    $r$      FROM belfry.cursor k WHERE k.partition_id = p_partition AND k.group_id = p_group;
$r$,
    $r$    SELECT k.ctid, k.committed, coalesce(k.skip, '{}') AS skip,$r$,
    $r$    SELECT k.committed, coalesce(k.skip, '{}') AS skip,$r$);

SELECT pg_temp.rewrite('belfry.ack_redelivery(bigint, bigint, uuid[], text, text)',
    $r$     WHERE k.ctid = c.ctid;
    IF NOT FOUND THEN -- it would not be said of them
        RAISE EXCEPTION 'the cursor of group % in partition % is not where it was locked', p_group, p_partition;
    END IF;
    IF v_release THEN
$r$,
    $r$     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    IF v_release THEN
$r$,
    $r$      FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p
             WHERE p.id >= p_partition AND p.id <= p_partition
             ORDER BY p.id DESC
             LIMIT 1) AS p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group;
$r$,
    $r$      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
      JOIN belfry.consumer_group g ON g.id = p_group
     WHERE p.id = p_partition;
$r$,
    $r$      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id >= p_group AND k.group_id <= p_group
     ORDER BY k.group_id DESC
     LIMIT 1;
$r$,
    $r$      FROM belfry.cursor k WHERE k.partition_id = p_partition AND k.group_id = p_group;
$r$,
    $r$    SELECT k.ctid, k.committed, k.lease_id, k.lease_end, k.retry_at, k.redrives INTO c$r$,
    $r$    SELECT k.committed, k.lease_id, k.lease_end, k.retry_at, k.redrives INTO c$r$);

SELECT pg_temp.rewrite('belfry.settle_told(bigint[], bigint[])',
    $r$          FROM (SELECT p.last_seq
                  FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         WHERE c.ctid = v_at
           AND$r$,
    $r$          FROM belfry.partition p
         WHERE c.partition_id = k.partition_id AND c.group_id = k.group_id AND p.id = k.partition_id
           AND$r$,
    $r$          WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
            AND coalesce(c.ready_at <= statement_timestamp(), false)
          ORDER BY c.group_id DESC
          LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- Newer snapshots than that of the lock.
        SELECT c.ctid INTO v_at
          FROM belfry.cursor c
         WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
         ORDER BY c.group_id DESC
         LIMIT 1;
$r$,
    $r$          WHERE c.partition_id = k.partition_id AND c.group_id = k.group_id AND c.ready_at <= statement_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- A newer snapshot than that of the lock.
$r$,
    $r$    k record;
    v_at tid;
BEGIN
$r$,
    $r$    k record;
BEGIN
$r$);

DROP FUNCTION belfry.session_floor(text, timestamptz);
DROP FUNCTION belfry.keep_floor(text, timestamptz, timestamptz, interval);
