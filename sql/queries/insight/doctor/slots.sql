-- Lists the replication slots that are not temporary. kept is the WAL that the slot keeps, in bytes. age
-- is the age of the row versions that the slot keeps, in transactions.
SELECT s.slot_name::text AS name, s.active, coalesce(s.wal_status, '') AS wal_status,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0) END::bigint AS kept,
       greatest(coalesce(age(s.xmin), 0), coalesce(age(s.catalog_xmin), 0))::bigint AS age
  FROM pg_replication_slots s
 WHERE NOT s.temporary
 ORDER BY s.active, s.slot_name
 LIMIT 100
