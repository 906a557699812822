-- Takes lock ($1, $2) exclusively. So it waits for the transaction of every producer that sent no
-- notification. Later producers do not get the lock, so they send a notification.
SELECT pg_advisory_lock($1::integer, $2::integer)
