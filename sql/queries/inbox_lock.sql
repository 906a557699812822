-- Becomes the sequencer, for as long as this session lives, if nobody is.
SELECT pg_try_advisory_lock($1::integer, $2::integer)
