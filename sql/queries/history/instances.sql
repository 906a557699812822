-- Lists the figures of instances from $1 to $2 in buckets of $3 seconds, in order. figures are the least,
-- mean, greatest and last of cpu_user, cpu_system, rss_bytes, pool_size, pool_idle and pool_active.
SELECT date_bin(make_interval(secs => $3::bigint), i.at, 'epoch') AS at, i.instance, i.hostname, i.port, i.pid, count(*) AS samples, sum(i.db_errors)::bigint AS db_errors,
       max(i.at) AS last_at,
       ARRAY[min(i.cpu_user), avg(i.cpu_user), max(i.cpu_user), (array_agg(i.cpu_user ORDER BY i.at DESC))[1]]::float8[] AS cpu_user,
       ARRAY[min(i.cpu_system), avg(i.cpu_system), max(i.cpu_system), (array_agg(i.cpu_system ORDER BY i.at DESC))[1]]::float8[] AS cpu_system,
       ARRAY[min(i.rss_bytes), avg(i.rss_bytes), max(i.rss_bytes), (array_agg(i.rss_bytes ORDER BY i.at DESC))[1]]::float8[] AS rss_bytes,
       ARRAY[min(i.pool_size), avg(i.pool_size), max(i.pool_size), (array_agg(i.pool_size ORDER BY i.at DESC))[1]]::float8[] AS pool_size,
       ARRAY[min(i.pool_idle), avg(i.pool_idle), max(i.pool_idle), (array_agg(i.pool_idle ORDER BY i.at DESC))[1]]::float8[] AS pool_idle,
       ARRAY[min(i.pool_active), avg(i.pool_active), max(i.pool_active), (array_agg(i.pool_active ORDER BY i.at DESC))[1]]::float8[] AS pool_active
  FROM belfry.history_instance i
 WHERE i.at >= $1::timestamptz AND i.at < $2::timestamptz
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 1, 3, 5, 2
