-- Begins a cycle of the query $1: holds the query against its deletion, and holds off other cycles of
-- the query in the same partition, which have the same $2 and $3. No row: the query does not exist.
SELECT s.id, pg_advisory_xact_lock($2::integer, $3::integer)::text AS locked
  FROM belfry.stream s
 WHERE s.uid = $1::uuid
   FOR KEY SHARE OF s
