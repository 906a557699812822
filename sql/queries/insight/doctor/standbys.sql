-- Lists the connected standbys, and how far the replay of each standby is behind, in bytes and in
-- seconds. If the role may not see a standby, its texts are ''.
SELECT coalesce(r.application_name, '') AS name, coalesce(r.state, '') AS state, coalesce(r.sync_state, '') AS sync_state,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn), 0) END::bigint AS bytes,
       coalesce(extract(epoch FROM r.replay_lag), 0)::float8 AS seconds
  FROM pg_stat_replication r
 ORDER BY seconds DESC
 LIMIT 100
