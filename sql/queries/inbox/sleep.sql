-- Waits until every producer that left out its notification has ended, and keeps
-- those that come out of lock ($1, $2): they notify.
SELECT pg_advisory_lock($1::integer, $2::integer)
