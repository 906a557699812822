-- Lists the advisory locks of Belfry (docs/security.md) that a role without the rights of a server
-- holds. A server may create tables in the schema, or change grants. Producers share the locks 8 and 10,
-- so these are listed only if they are held exclusively. pid is 0 for a prepared transaction. stops:
-- messages do not move while the lock is held.
WITH locks (class, id, kind, name, stops, cost) AS (VALUES
    (6448492, 1718778113, 1, 'the migration lock', false, 'no instance can migrate the schema'),
    (1111837766, 7, 2, 'lock 7 of the inbox', true, 'messages written by SQL stay in the inbox'),
    (1111837766, 8, 2, 'lock 8 of the inbox', false, 'the sequencer does not sleep'),
    (1111837766, 9, 2, 'lock 9 of the inbox', true, 'messages written by SQL stay in the inbox'),
    (1111837766, 10, 2, 'lock 10 of the inbox', false, 'messages written by SQL may arrive late'))
SELECT coalesce(h.pid, 0)::bigint AS pid, coalesce(a.usename, '')::text AS username, coalesce(a.application_name, '') AS application,
       l.name, l.stops, l.cost
  FROM locks l
  JOIN pg_locks h ON h.locktype = 'advisory' AND h.classid::bigint = l.class AND h.objid::bigint = l.id AND h.objsubid = l.kind AND h.granted
   AND h.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND (l.id NOT IN (8, 10) OR h.mode = 'ExclusiveLock')
  LEFT JOIN pg_stat_activity a ON a.pid = h.pid
 WHERE h.pid IS NULL
    OR NOT (coalesce(has_table_privilege(a.usesysid, to_regclass('belfry.queue_grant'), 'UPDATE'), false)
         OR coalesce(has_schema_privilege(a.usesysid, to_regnamespace('belfry'), 'CREATE'),
                     has_database_privilege(a.usesysid, current_database(), 'CREATE')))
 ORDER BY l.id, h.pid
 LIMIT 20
