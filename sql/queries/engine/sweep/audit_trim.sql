-- Deletes up to $2 rows of the audit that are older than $1 seconds.
DELETE FROM belfry.audit a
 WHERE a.id = ANY (ARRAY (
        SELECT d.id
          FROM belfry.audit d
         WHERE d.at < statement_timestamp() - make_interval(secs => $1::float8)
         ORDER BY d.at, d.id
         LIMIT $2::bigint))
