-- Puts the dead letters with the ids p_letters back for their groups. A dead letter without a cursor
-- stays. A dead letter without a message is deleted. Returns for each cursor the number of messages put
-- back, and the seconds until the cursor is ready. Locks the cursors in (partition, group) order before
-- it reads the dead letters, so each dead letter counts once.
CREATE FUNCTION belfry.redrive_dead_letters(p_letters bigint[])
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
                  -- After a seek, a message that is already redriven may become a dead letter again.
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
           ready_at = CASE WHEN c.lease_until > statement_timestamp() THEN c.ready_at
                           ELSE least(c.ready_at, statement_timestamp()) END
      FROM counted k
     WHERE c.partition_id = ANY (v_partitions) AND c.partition_id = k.partition_id AND c.group_id = k.group_id
    RETURNING c.group_id, c.partition_id, k.n, extract(epoch FROM c.ready_at - statement_timestamp())::float8;
END $$;
