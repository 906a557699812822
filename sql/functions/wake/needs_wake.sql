-- Reports whether a cursor may have ready messages although ready_at is NULL, or although ready_at is
-- the end of a retry delay of redriven messages. The index cursor_asleep must contain all such cursors.
CREATE FUNCTION belfry.needs_wake(ready_at timestamptz, committed bigint, last_seq bigint, redrives integer, lease_id uuid)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN $1 IS NULL THEN $2 < $3 OR coalesce($4, 0) > 0
                ELSE coalesce($4, 0) > 0 AND $2 < $3 AND $1 > statement_timestamp() AND $5 IS NULL END
$$;
