-- Lists the spools that are not empty, with the seconds since the last change of each spool. maintenance
-- says whether push maintenance is on.
SELECT s.host, s.messages, s.rejected, s.bytes, extract(epoch FROM clock_timestamp() - s.changed_at)::float8 AS seconds,
       EXISTS (SELECT 1 FROM belfry.setting t WHERE t.name = 'push_maintenance' AND t.enabled) AS maintenance
  FROM belfry.spool s
 ORDER BY s.host, s.id
 LIMIT 100
