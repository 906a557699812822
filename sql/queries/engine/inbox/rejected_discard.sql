-- Deletes the rejected rows with the ids $1. Returns the number of rows.
WITH gone AS (DELETE FROM belfry.inbox_rejected r WHERE r.id = ANY ($1::bigint[]) RETURNING 1)
SELECT count(*) AS rows FROM gone
