-- Releases lock ($1, $2) of this session.
SELECT pg_advisory_unlock($1::integer, $2::integer)
