-- Deletes up to $2 rows of belfry.history and up to $2 rows of belfry.history_instance that are older
-- than $1 seconds. Returns both numbers of deleted rows.
WITH queues AS (
    DELETE FROM belfry.history h
     WHERE h.ctid = ANY (ARRAY (
            SELECT d.ctid FROM belfry.history d WHERE d.at < statement_timestamp() - make_interval(secs => $1::float8) ORDER BY d.at LIMIT $2::bigint))
    RETURNING 1
), instances AS (
    DELETE FROM belfry.history_instance i
     WHERE i.ctid = ANY (ARRAY (
            SELECT d.ctid FROM belfry.history_instance d WHERE d.at < statement_timestamp() - make_interval(secs => $1::float8) ORDER BY d.at LIMIT $2::bigint))
    RETURNING 1
)
SELECT (SELECT count(*) FROM queues) AS queues, (SELECT count(*) FROM instances) AS instances
