-- Takes lock ($1, $2) for as long as this session lives, if nobody has it.
SELECT pg_try_advisory_lock($1::integer, $2::integer)
