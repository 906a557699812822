-- Lists the tables of Belfry: whether a crash empties the table, whether autovacuum is off, the live and
-- dead rows, and the seconds since the last vacuum (NULL: never).
SELECT c.relname::text AS name, c.relpersistence = 'u' AS unlogged,
       EXISTS (SELECT 1 FROM pg_options_to_table(c.reloptions) o WHERE o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean) AS autovacuum_off,
       pg_stat_get_live_tuples(c.oid) AS live, pg_stat_get_dead_tuples(c.oid) AS dead,
       extract(epoch FROM clock_timestamp() - greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)))::float8 AS vacuumed
  FROM pg_class c
 WHERE c.relnamespace = to_regnamespace('belfry') AND c.relkind IN ('r', 'p')
 ORDER BY c.relname
