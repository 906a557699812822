-- THE rule of ready_at for a cursor without a live lease, in place of that of
-- migration 000001: NULL when nothing is left or it is paused; now when messages
-- were redriven or the head is poppable, else the instant it becomes so. The body
-- is one expression, so the planner inlines it.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean, retry_at timestamptz, redrives integer
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $8 THEN NULL
        WHEN $10 > 0 THEN statement_timestamp()
        WHEN $3 <= $2 THEN NULL
        WHEN $6 = 0 AND $7 = 0 AND ($5 IS NULL OR $5 <= statement_timestamp()) THEN greatest(statement_timestamp(), $9)
        ELSE greatest(belfry.due_at($1, $2, $4, $6, $7), $9)
    END
$$;

-- THE rule of ready_at (migration 000005), where messages may have been redriven:
-- the earlier of theirs and of the log's. It looks at their rows, so those are
-- written in a statement before.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean, retry_at timestamptz, redrives integer, group_id bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT $8 THEN least(
        CASE WHEN $10 > 0 THEN belfry.redrives_at($1, $11) END,
        belfry.ready_at($1, $2, $3, $4, $5, $6, $7, false, $9, NULL)) END
$$;
