-- Begins a time in which producers may leave out their notification: takes lock
-- ($1, $2), which keeps the other instances watching, and tells them so.
SELECT pg_try_advisory_lock($1::integer, $2::integer), belfry.wake()
