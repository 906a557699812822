-- Removes the time limits of this session, so that only a cancel ends a wait for a lock. Returns the pid
-- for the cancel, because a pooler does not reveal the pid.
SELECT pg_backend_pid(), set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)
