-- Removes the time limits of this session, so that only a cancel ends its waiting. Returns the pid
-- to cancel, because a pooler does not reveal it.
SELECT pg_backend_pid(), set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)
