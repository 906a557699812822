-- Reads the settings of Postgres that matter for durability, memory and vacuum. source says where the
-- value was set. pending: the configuration file has another value, which takes effect after a restart.
SELECT s.name, current_setting(s.name) AS value, s.source, s.pending_restart AS pending
  FROM pg_settings s
 WHERE s.name IN ('server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'wal_level', 'max_wal_size', 'checkpoint_timeout',
                  'max_slot_wal_keep_size', 'hot_standby_feedback', 'max_connections', 'shared_buffers', 'effective_cache_size', 'work_mem',
                  'random_page_cost', 'jit', 'autovacuum', 'autovacuum_naptime', 'autovacuum_max_workers', 'autovacuum_vacuum_cost_limit',
                  'autovacuum_vacuum_cost_delay', 'idle_in_transaction_session_timeout', 'statement_timeout', 'max_prepared_transactions')
 ORDER BY s.category, s.name
