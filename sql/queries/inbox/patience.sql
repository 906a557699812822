-- Nothing but a cancel ends what this session waits for, and a pooler does not tell
-- whom to cancel.
SELECT pg_backend_pid(), set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)
