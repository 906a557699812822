-- Lists at most $1 grants in SQL that are in force.
SELECT g.role::text AS role, g.kind, g.queue, coalesce(g.consumer_group, '') AS consumer_group, g.granted_by::text AS granted_by, g.granted_at
  FROM belfry.grants g
 ORDER BY g.role, g.kind, g.queue, g.consumer_group
 LIMIT $1::bigint
