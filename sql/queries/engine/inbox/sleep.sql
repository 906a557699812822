-- Takes lock ($1, $2) exclusively. It waits for every producer that left out its notification.
-- Later producers do not get the lock, and so they notify.
SELECT pg_advisory_lock($1::integer, $2::integer)
