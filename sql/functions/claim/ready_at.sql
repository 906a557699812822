-- Returns ready_at for a cursor without a live lease: NULL if no message is left, now if a message was
-- redriven or the first message is visible, and otherwise the instant at which the first message becomes
-- visible. Every statement that writes cursor.ready_at uses this rule, also during a pause; see
-- belfry.change_pause. The body is one expression, so the planner inlines it. This form does not read
-- belfry.redrive, and treats every redriven message as ready now.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, retry_at timestamptz, redrives integer
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $9 > 0 THEN statement_timestamp()
        WHEN $3 <= $2 THEN NULL
        WHEN $6 = 0 AND $7 = 0 AND ($5 IS NULL OR $5 <= statement_timestamp()) THEN greatest(statement_timestamp(), $8)
        ELSE greatest(belfry.due_at($1, $2, $4, $6, $7), $8)
    END
$$;

-- Returns the earlier of two instants: when the redriven messages are ready after their retry delay, and
-- when the log is ready. It reads belfry.redrive, so the caller must change belfry.redrive in an earlier
-- statement.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, retry_at timestamptz, redrives integer, group_id bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT least(
        CASE WHEN $9 > 0 THEN belfry.redrives_ready_at($1, $10) END,
        belfry.ready_at($1, $2, $3, $4, $5, $6, $7, $8, NULL))
$$;
