-- Begins the time in which producers may leave out their notification. Takes lock ($1, $2), which
-- keeps the other instances watching, and notifies them.
SELECT pg_try_advisory_lock($1::integer, $2::integer), belfry.wake()
