-- Lists the connected standbys: what each has not replayed yet, in bytes and in seconds. The columns of
-- a standby that the role may not see are ''.
SELECT coalesce(r.application_name, '') AS name, coalesce(r.state, '') AS state, coalesce(r.sync_state, '') AS sync_state,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn), 0) END::bigint AS bytes,
       coalesce(extract(epoch FROM r.replay_lag), 0)::float8 AS seconds
  FROM pg_stat_replication r
 ORDER BY seconds DESC
 LIMIT 100
