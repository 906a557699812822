-- Cancels the running statement of session $1.
SELECT pg_cancel_backend($1::integer)
