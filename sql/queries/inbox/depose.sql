-- Ends the session with lock ($1, $2) if it is frozen, as inbox_watch tells with $3
-- seconds: whatever its transaction did is undone before anybody
-- else can have the lock. The session that has or wants lock ($1, $4) for itself is of
-- the same process. Returns how many sessions were told to end.
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
