-- Returns ready_at for a cursor without a live lease. NULL: the partition is paused, or nothing
-- is left. Now: a message was redriven, or the first message is visible. Otherwise: the instant at
-- which the first message becomes visible. Every statement that writes cursor.ready_at uses this
-- rule. The body is one expression, so the planner inlines it. This form does not read
-- belfry.redrive: any redrive is ready now.
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

-- The same rule with the retry delays of redriven messages: the earlier one of their instant and
-- the instant of the log. It reads belfry.redrive, so a statement that changes redrives must come
-- before.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean, retry_at timestamptz, redrives integer, group_id bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT $8 THEN least(
        CASE WHEN $10 > 0 THEN belfry.redrives_ready_at($1, $11) END,
        belfry.ready_at($1, $2, $3, $4, $5, $6, $7, false, $9, NULL)) END
$$;
