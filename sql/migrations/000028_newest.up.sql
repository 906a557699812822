-- While somebody holds a snapshot: a claim of a partition by its name, and settle_told,
-- looked for a version of the cursor that is due and that nobody has locked, from the
-- newest one on. Where the newest one was locked, or not due, they went through all that
-- there are. A consumer in SQL meets that whenever another one was faster; after two
-- minutes of a snapshot it was most of what pops cost. The newest one is the answer
-- now, whatever it is. A cursor that changes just then may be passed over, as one that
-- somebody holds is.
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

SELECT pg_temp.rewrite('belfry.claim(bigint, bigint, bigint, bigint, uuid, timestamptz, timestamptz, boolean)',
    $r$        -- coalesce keeps this off the index by ready_at, where it would walk
        -- everything that is due.
$r$,
    '',
    $r$                  FROM belfry.cursor c
                 WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group
                   AND coalesce(c.ready_at <= v_now, false)
                 ORDER BY c.group_id DESC
                 LIMIT 1
                   FOR NO KEY UPDATE SKIP LOCKED) AS o;
$r$,
    $r$                  FROM (SELECT n.ctid AS at, n.ready_at
                          FROM belfry.cursor n
                         WHERE n.partition_id = p_partition AND n.group_id >= p_group AND n.group_id <= p_group
                         ORDER BY n.group_id DESC
                         LIMIT 1) AS newest
                  JOIN belfry.cursor c ON c.ctid = newest.at
                 WHERE newest.ready_at <= v_now AND coalesce(c.ready_at <= v_now, false) -- not by the index of ready_at
                   FOR NO KEY UPDATE OF c SKIP LOCKED) AS o;
$r$);

SELECT pg_temp.rewrite('belfry.settle_told(bigint[], bigint[])',
    $r$          WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
            AND coalesce(c.ready_at <= statement_timestamp(), false)
          ORDER BY c.group_id DESC
          LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED;
$r$,
    $r$           JOIN (SELECT n.ctid AS at, n.ready_at
                   FROM belfry.cursor n
                  WHERE n.partition_id = k.partition_id AND n.group_id >= k.group_id AND n.group_id <= k.group_id
                  ORDER BY n.group_id DESC
                  LIMIT 1) AS newest ON newest.at = c.ctid
          WHERE newest.ready_at <= statement_timestamp() AND coalesce(c.ready_at <= statement_timestamp(), false)
            FOR NO KEY UPDATE OF c SKIP LOCKED;
$r$);
