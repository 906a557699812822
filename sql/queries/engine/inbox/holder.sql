-- Finds a session that holds a lock ($1, any of $2), with its application name. If several locks are
-- held, the lowest id decides. pid is 0 for a prepared transaction. No row: no lock is held.
SELECT coalesce(l.pid, 0)::bigint AS pid, coalesce(a.usename, '')::text AS username, coalesce(a.application_name, '') AS application
  FROM pg_locks l
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.classid = $1::integer::oid AND l.objid::bigint = ANY ($2::bigint[]) AND l.objsubid = 2
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.granted
 ORDER BY l.objid::bigint, l.pid
 LIMIT 1
