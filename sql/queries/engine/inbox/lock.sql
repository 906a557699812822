-- Takes lock ($1, $2) until the session ends, if it is free.
SELECT pg_try_advisory_lock($1::integer, $2::integer)
