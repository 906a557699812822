-- Lists the indexes of the schema by name. read counts the blocks that Postgres read from the disk, and
-- hit the blocks that it found in its memory.
SELECT i.relname AS table_name, i.indexrelname AS name, coalesce(i.idx_blks_read, 0) AS read, coalesce(i.idx_blks_hit, 0) AS hit
  FROM pg_catalog.pg_statio_user_indexes i
 WHERE i.schemaname = 'belfry'
 ORDER BY 1, 2
