-- Lists at most 10 sessions of this database that have run a statement for more than a second, the
-- oldest statement first. The text of a statement of another program is left out, because it may contain
-- data or a password. Belfry sends data in parameters, which are not in the text. A role without the
-- rights of pg_read_all_stats sees only its own sessions.
SELECT a.pid::bigint AS pid, extract(epoch FROM now() - a.query_start)::float8 AS duration, a.state,
       CASE WHEN a.application_name IN ('belfry', 'belfry-dispatch', 'belfry-health', 'belfry-inbox', 'belfry-listen', 'belfry-notify',
                                        'belfry-doctor', 'belfry import', 'belfry migrate', 'belfry reseal', 'belfry token')
            THEN left(a.query, 200) ELSE '(statement of another program)' END AS text,
       a.wait_event_type, a.wait_event
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = current_database() AND a.state <> 'idle' AND a.query_start < now() - interval '1 second' AND a.pid <> pg_backend_pid()
 ORDER BY a.query_start
 LIMIT 10
