-- What an instance that is not the sequencer sees: the first row that waits (0: none),
-- and whether the session with lock ($1, $2) has been waiting for its client for
-- longer than $3 seconds, as that of a frozen process does; while inbox_look is at
-- work for it, it waits with good reason. marked: somebody has lock ($1, $4), so rows
-- may come that nobody announces.
SELECT coalesce((SELECT min(i.id) FROM belfry.inbox i), 0) AS head,
       EXISTS (
       SELECT 1
         FROM pg_locks l
         JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'advisory' AND l.classid = $1::integer::oid AND l.objid = $2::integer::oid AND l.objsubid = 2
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND a.wait_event_type = 'Client' AND a.state_change < clock_timestamp() - make_interval(secs => $3::float8)
          AND NOT EXISTS (
              SELECT 1 FROM pg_stat_activity b
               WHERE b.datid = a.datid AND b.state = 'active' AND b.wait_event_type IS DISTINCT FROM 'Client'
                 AND b.query LIKE '-- Reads the first $2 rows of the inbox%')) AS frozen,
       EXISTS (
       SELECT 1 FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.classid = $1::integer::oid AND l.objid = $4::integer::oid AND l.objsubid = 2
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.granted) AS marked
