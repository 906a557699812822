-- Nothing but a cancel ends what this session waits for.
SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)
