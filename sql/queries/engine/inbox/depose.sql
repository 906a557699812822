-- Ends the session that holds lock ($1, $2) if the session is frozen for $3 seconds; see watch.sql.
-- Postgres rolls the transaction of the session back before another session can get the lock. A second
-- session of the frozen process holds lock ($1, $4) or waits for it. The statement ends the second
-- session too. Returns the number of ended sessions.
WITH here AS (
    SELECT l.pid, l.objid::bigint AS id, l.mode
      FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.classid = $1::integer::oid AND l.objsubid = 2
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
), frozen AS (
    SELECT h.pid
      FROM here h
      JOIN pg_stat_activity a ON a.pid = h.pid
     WHERE h.id = $2::integer
       AND a.wait_event_type = 'Client' AND a.state_change < clock_timestamp() - make_interval(secs => $3::float8)
       AND NOT EXISTS (
           SELECT 1 FROM pg_stat_activity b
            WHERE b.datid = a.datid AND b.state = 'active' AND b.wait_event_type IS DISTINCT FROM 'Client'
              AND b.query LIKE '-- Reads the first $2 rows of the inbox%')
)
SELECT count(pg_terminate_backend(e.pid))
  FROM (SELECT f.pid FROM frozen f
        UNION
        SELECT h.pid FROM here h WHERE h.id = $4::integer AND h.mode = 'ExclusiveLock' AND EXISTS (SELECT 1 FROM frozen)) AS e
