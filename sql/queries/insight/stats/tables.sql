-- Lists the tables of the schema with the counters of Postgres, the largest first.
SELECT s.relname AS name, z.total AS total_bytes, z.heap AS table_bytes, z.indexes AS index_bytes,
       pg_size_pretty(z.total) AS total_size, pg_size_pretty(z.heap) AS table_size, pg_size_pretty(z.indexes) AS index_size,
       s.n_live_tup AS live, s.n_dead_tup AS dead, s.n_tup_upd AS updated, s.n_tup_hot_upd AS hot_updated, s.last_vacuum, s.last_autovacuum,
       s.autovacuum_count, s.autoanalyze_count, coalesce(o.heap_blks_read, 0) AS heap_read, coalesce(o.heap_blks_hit, 0) AS heap_hit
  FROM pg_catalog.pg_stat_user_tables s
 CROSS JOIN LATERAL (SELECT pg_total_relation_size(s.relid), pg_relation_size(s.relid), pg_indexes_size(s.relid)) AS z(total, heap, indexes)
  LEFT JOIN pg_catalog.pg_statio_user_tables o ON o.relid = s.relid
 WHERE s.schemaname = 'belfry'
 ORDER BY 2 DESC, 1
