-- Lists the replication slots that stay, with the WAL that each keeps in bytes and the age in
-- transactions of the row versions that it keeps.
SELECT s.slot_name::text AS name, s.active, coalesce(s.wal_status, '') AS wal_status,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0) END::bigint AS kept,
       greatest(coalesce(age(s.xmin), 0), coalesce(age(s.catalog_xmin), 0))::bigint AS age
  FROM pg_replication_slots s
 WHERE NOT s.temporary
 ORDER BY s.active, s.slot_name
 LIMIT 100
