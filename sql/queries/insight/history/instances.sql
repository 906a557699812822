-- Lists the measurements of instances from $1 to $2 in buckets of $3 seconds, by time. $4: a host, $5: a
-- process id (NULL: any). Each measurement is an array: least, mean, greatest and last value. $6: rows
-- of instances that may not be written yet, as in series.sql. popped: the popped messages of all queues.
SELECT date_bin(make_interval(secs => $3::bigint), i.at, 'epoch') AS at, i.hostname, i.port, i.pid, count(*) AS samples,
       sum(i.db_errors)::bigint AS db_errors, max(i.at) AS last_at,
       coalesce(sum(coalesce(i.popped,
           (SELECT sum(h.pop_messages) FROM belfry.history h WHERE h.at = i.at AND h.minutes = i.minutes AND h.instance = i.instance))), 0)::bigint AS popped,
       ARRAY[min(i.cpu_user), avg(i.cpu_user), max(i.cpu_user), (array_agg(i.cpu_user ORDER BY i.at DESC))[1]]::float8[] AS cpu_user,
       ARRAY[min(i.cpu_system), avg(i.cpu_system), max(i.cpu_system), (array_agg(i.cpu_system ORDER BY i.at DESC))[1]]::float8[] AS cpu_system,
       ARRAY[min(i.rss_bytes), avg(i.rss_bytes), max(i.rss_bytes), (array_agg(i.rss_bytes ORDER BY i.at DESC))[1]]::float8[] AS rss_bytes,
       ARRAY[min(i.pool_size), avg(i.pool_size), max(i.pool_size), (array_agg(i.pool_size ORDER BY i.at DESC))[1]]::float8[] AS pool_size,
       ARRAY[min(i.pool_idle), avg(i.pool_idle), max(i.pool_idle), (array_agg(i.pool_idle ORDER BY i.at DESC))[1]]::float8[] AS pool_idle,
       ARRAY[min(i.pool_active), avg(i.pool_active), max(i.pool_active), (array_agg(i.pool_active ORDER BY i.at DESC))[1]]::float8[] AS pool_active
  FROM (
  SELECT NULL::bigint AS popped, w.at, w.minutes, w.instance, w.hostname, w.port, w.pid, w.db_errors, w.cpu_user,
         w.cpu_system, w.rss_bytes, w.pool_size, w.pool_idle, w.pool_active
    FROM belfry.history_instance w
   UNION ALL
  SELECT n.popped, n.at, n.minutes, n.instance, n.hostname, n.port, n.pid, n.db_errors, n.cpu_user,
         n.cpu_system, n.rss_bytes, n.pool_size, n.pool_idle, n.pool_active
    FROM json_to_recordset($6::json) AS n(at timestamptz, minutes smallint, instance uuid, hostname text, port bigint, pid bigint, db_errors bigint,
         cpu_user float8, cpu_system float8, rss_bytes bigint, pool_size bigint, pool_idle bigint, pool_active bigint, popped bigint)
   WHERE NOT EXISTS (SELECT 1 FROM belfry.history_instance k WHERE k.at = n.at AND k.minutes = n.minutes AND k.instance = n.instance)) i
 WHERE i.at >= $1::timestamptz AND i.at < $2::timestamptz
   AND ($4::text IS NULL OR i.hostname = $4::text)
   AND ($5::text IS NULL OR i.pid::text = $5::text)
 GROUP BY 1, 2, 3, 4
 ORDER BY 1, 2, 3, 4
