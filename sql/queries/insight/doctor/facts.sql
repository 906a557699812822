-- Reads settings, limits and rights for several checks. $1: the application name of the sessions of
-- listeners. Returns one row. A setting that the role may not read is ''.
SELECT current_setting('server_version_num')::bigint AS version, current_setting('server_version') AS version_text, pg_is_in_recovery() AS standby,
       current_setting('fsync')::boolean AS fsync, current_setting('full_page_writes')::boolean AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum')::boolean AS autovacuum,
       current_setting('track_counts')::boolean AS track_counts,
       coalesce((SELECT s.setting FROM pg_settings s WHERE s.name = 'synchronous_standby_names'), '') AS synchronous_standbys,
       coalesce((SELECT s.setting FROM pg_settings s WHERE s.name = 'data_directory'), '') AS data_directory,
       current_setting('max_connections')::bigint AS max_connections,
       current_setting('superuser_reserved_connections')::bigint
           + coalesce(nullif(current_setting('reserved_connections', true), ''), '0')::bigint AS reserved,
       d.datconnlimit::bigint AS database_limit, r.rolconnlimit::bigint AS role_limit, r.rolsuper AS superuser, r.rolname::text AS role, d.datname::text AS database,
       pg_has_role(r.oid, 'pg_read_all_stats', 'USAGE') OR r.rolsuper AS sees_sessions,
       (SELECT coalesce(sum(s.numbackends), 0)::bigint FROM pg_stat_database s) AS used,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname AND a.application_name = $1::text) AS instances,
       pg_notification_queue_usage() AS notification_queue, age(d.datfrozenxid)::bigint AS transaction_age
  FROM pg_database d
  JOIN pg_roles r ON r.rolname = current_user
 WHERE d.datname = current_database()
