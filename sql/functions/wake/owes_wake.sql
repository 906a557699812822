-- Whether a cursor says that nothing of the log is ready although there may be: it
-- is asleep, or it waits for the end of its redriven messages' rest alone.
CREATE FUNCTION belfry.owes_wake(ready_at timestamptz, committed bigint, last_seq bigint, redrives integer, lease_id uuid)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN $1 IS NULL THEN $2 < $3 OR coalesce($4, 0) > 0
                ELSE coalesce($4, 0) > 0 AND $2 < $3 AND $1 > statement_timestamp() AND $5 IS NULL END
$$;
