-- Ends what session $1 waits for.
SELECT pg_cancel_backend($1::integer)
