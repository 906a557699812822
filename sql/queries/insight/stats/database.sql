-- Reads the counters of Postgres for this database, and the size of its memory for blocks.
SELECT current_database()::text AS name, coalesce(d.blks_read, 0) AS read, coalesce(d.blks_hit, 0) AS hit, s.setting AS shared_buffers,
       pg_size_pretty(s.setting::bigint * current_setting('block_size')::bigint) AS shared_buffers_size
  FROM pg_settings s
  LEFT JOIN pg_catalog.pg_stat_database d ON d.datname = current_database()
 WHERE s.name = 'shared_buffers'
