-- Lists the indexes of the schema with the blocks that Postgres read and found in its memory, by name.
SELECT i.relname AS table_name, i.indexrelname AS name, coalesce(i.idx_blks_read, 0) AS read, coalesce(i.idx_blks_hit, 0) AS hit
  FROM pg_catalog.pg_statio_user_indexes i
 WHERE i.schemaname = 'belfry'
 ORDER BY 1, 2
