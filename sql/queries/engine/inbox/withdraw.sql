-- Cancels the running statement of the session with pid $1.
SELECT pg_cancel_backend($1::integer)
