-- Returns the facts that an instance needs to watch the sequencer. head: the id of the first waiting row
-- (0: none). frozen: the session with lock ($1, $2) has waited for its client for more than $3 seconds,
-- so the process of the sequencer seems to be frozen. frozen is false while look.sql or first.sql runs.
-- marked: a session holds lock ($1, $4), so producers may insert rows without a notification.
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
