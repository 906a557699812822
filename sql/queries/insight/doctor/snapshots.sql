-- Lists the oldest transactions of this database that are older than $1 seconds, and that hold a
-- snapshot or a transaction id, or are idle in transaction. The sequencer waits for producers with an
-- advisory lock. Its session is left out, because the session of the producer is listed. For a prepared
-- transaction pid is 0, and gid is its name.
SELECT t.pid, t.username, t.application, t.state, t.gid, t.began, extract(epoch FROM clock_timestamp() - t.began)::float8 AS seconds
  FROM (SELECT a.pid::bigint AS pid, coalesce(a.usename, '')::text AS username, coalesce(a.application_name, '') AS application,
               coalesce(a.state, '') AS state, '' AS gid, a.xact_start AS began
          FROM pg_stat_activity a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
           AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL OR a.state LIKE 'idle in transaction%')
           AND NOT (a.application_name LIKE 'belfry%' AND a.wait_event IS NOT DISTINCT FROM 'advisory')
        UNION ALL
        SELECT 0, x.owner::text, '', 'prepared', x.gid, x.prepared FROM pg_prepared_xacts x WHERE x.database = current_database()) AS t
 WHERE t.began < clock_timestamp() - make_interval(secs => $1::float8)
 ORDER BY t.began
 LIMIT 5
