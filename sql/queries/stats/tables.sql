-- Lists the tables of the schema with what Postgres counts of them, the largest first.
SELECT s.relname AS name, pg_total_relation_size(s.relid) AS total_bytes, pg_relation_size(s.relid) AS table_bytes, pg_indexes_size(s.relid) AS index_bytes,
       s.n_live_tup AS live, s.n_dead_tup AS dead, s.n_tup_upd AS updated, s.n_tup_hot_upd AS hot_updated, s.last_autovacuum, s.autovacuum_count,
       coalesce(o.heap_blks_read, 0) AS heap_read, coalesce(o.heap_blks_hit, 0) AS heap_hit, coalesce(o.idx_blks_read, 0) AS index_read,
       coalesce(o.idx_blks_hit, 0) AS index_hit, current_database() AS database
  FROM pg_catalog.pg_stat_user_tables s
  LEFT JOIN pg_catalog.pg_statio_user_tables o ON o.relid = s.relid
 WHERE s.schemaname = 'belfry'
 ORDER BY 2 DESC, 1
