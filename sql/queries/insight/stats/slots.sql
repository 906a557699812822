-- Lists at most 100 replication slots that are not temporary, slots without a reader first. kept is the
-- WAL that the slot keeps, in bytes.
SELECT s.slot_name::text AS name, s.slot_type AS kind, s.active,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0) END::bigint AS kept
  FROM pg_replication_slots s
 WHERE NOT s.temporary
 ORDER BY s.active, s.slot_name
 LIMIT 100
