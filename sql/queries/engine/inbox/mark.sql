-- Begins the time in which producers need not send a notification. Takes lock ($1, $2) and notifies the
-- other instances. While the lock is held, they watch the inbox.
SELECT pg_try_advisory_lock($1::integer, $2::integer), belfry.wake()
