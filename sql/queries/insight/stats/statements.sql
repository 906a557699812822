-- Lists the sessions of this database that run a statement for more than a second. At most 10, the oldest first. The
-- text of another program is left out, because it may have data or a password. Belfry sends data in parameters, which
-- are not in the text. Without the rights of pg_read_all_stats a role sees its own sessions only.
SELECT a.pid::bigint AS pid, extract(epoch FROM now() - a.query_start)::float8 AS duration, a.state,
       CASE WHEN a.application_name IN ('belfry', 'belfry-dispatch', 'belfry-health', 'belfry-inbox', 'belfry-listen', 'belfry-notify',
                                        'belfry-doctor', 'belfry import', 'belfry migrate', 'belfry reseal', 'belfry token')
            THEN left(a.query, 200) ELSE '(statement of another program)' END AS text,
       a.wait_event_type, a.wait_event
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = current_database() AND a.state <> 'idle' AND a.query_start < now() - interval '1 second' AND a.pid <> pg_backend_pid()
 ORDER BY a.query_start
 LIMIT 10
