-- Adds up rows of one instance that cover $2 minutes to rows that cover $3 minutes. It takes the oldest
-- interval of $3 minutes, if the whole interval is more than $1 seconds ago. Returns the numbers of
-- replaced rows of queues and of instances. No row: there is no such interval.
WITH span AS MATERIALIZED (
    SELECT date_bin(make_interval(mins => $3::integer), o.at, 'epoch') AS at, o.instance
      FROM ((SELECT h.at, h.instance FROM belfry.history h WHERE h.minutes = $2::integer AND h.minutes < 360 ORDER BY h.at LIMIT 1)
            UNION ALL
            (SELECT i.at, i.instance FROM belfry.history_instance i WHERE i.minutes = $2::integer AND i.minutes < 360 ORDER BY i.at LIMIT 1)) AS o
     WHERE date_bin(make_interval(mins => $3::integer), o.at, 'epoch') < statement_timestamp() - make_interval(secs => $1::float8) - make_interval(mins => $3::integer)
     ORDER BY o.at
     LIMIT 1
), gone AS (
    DELETE FROM belfry.history h USING span
     WHERE h.minutes = $2::integer AND h.instance = span.instance AND h.at >= span.at AND h.at < span.at + make_interval(mins => $3::integer)
    RETURNING h.instance, h.queue, h.consumer_group, h.push_requests, h.push_messages, h.pop_requests, h.pop_messages,
              h.pop_empty, h.ack_requests, h.ack_success, h.ack_failed, h.ack_retried, h.ack_refused, h.dead_letters, h.transactions,
              h.partitions_created, h.partitions_deleted, h.removed_retention, h.removed_completed, h.removed_evicted,
              h.lag_sum, h.lag_max, h.lag_count, h.latency, h.parked, h.depth, h.oldest_at, h.counted_at
), gone_instance AS (
    DELETE FROM belfry.history_instance i USING span
     WHERE i.minutes = $2::integer AND i.instance = span.instance AND i.at >= span.at AND i.at < span.at + make_interval(mins => $3::integer)
    RETURNING i.instance, i.hostname, i.port, i.pid, i.cpu_user, i.cpu_system, i.rss_bytes, i.heap_bytes, i.goroutines, i.pool_size, i.pool_idle, i.pool_active,
              i.db_errors
), latency AS MATERIALIZED (
    SELECT b.queue, b.consumer_group, array_agg(b.bucket << 40 | b.count ORDER BY b.bucket) AS latency
      FROM (SELECT g.queue, g.consumer_group, e.element >> 40 AS bucket, sum(e.element & 1099511627775)::bigint AS count
              FROM gone g CROSS JOIN LATERAL unnest(g.latency) AS e(element)
             GROUP BY 1, 2, 3) AS b
     GROUP BY 1, 2
), kept AS (
    INSERT INTO belfry.history (at, minutes, instance, queue, consumer_group, push_requests, push_messages, pop_requests, pop_messages,
        pop_empty, ack_requests, ack_success, ack_failed, ack_retried, ack_refused, dead_letters, transactions, partitions_created,
        partitions_deleted, removed_retention, removed_completed, removed_evicted, lag_sum, lag_max, lag_count,
        latency, parked, depth, oldest_at, counted_at)
    SELECT (SELECT span.at FROM span), $3::integer, g.instance, g.queue, g.consumer_group,
           sum(g.push_requests), sum(g.push_messages), sum(g.pop_requests), sum(g.pop_messages), sum(g.pop_empty),
           sum(g.ack_requests), sum(g.ack_success), sum(g.ack_failed), sum(g.ack_retried), sum(g.ack_refused), sum(g.dead_letters), sum(g.transactions),
           sum(g.partitions_created), sum(g.partitions_deleted), sum(g.removed_retention), sum(g.removed_completed),
           sum(g.removed_evicted), sum(g.lag_sum), max(g.lag_max), sum(g.lag_count),
           coalesce(min(l.latency), '{}'), max(g.parked),
           (array_agg(g.depth ORDER BY g.counted_at DESC) FILTER (WHERE g.depth IS NOT NULL))[1],
           (array_agg(g.oldest_at ORDER BY g.counted_at DESC) FILTER (WHERE g.depth IS NOT NULL))[1], max(g.counted_at)
      FROM gone g LEFT JOIN latency l ON l.queue = g.queue AND l.consumer_group = g.consumer_group
     GROUP BY g.instance, g.queue, g.consumer_group
    ON CONFLICT DO NOTHING
), kept_instance AS (
    INSERT INTO belfry.history_instance (at, minutes, instance, hostname, port, pid, cpu_user, cpu_system, rss_bytes, heap_bytes, goroutines,
        pool_size, pool_idle, pool_active, db_errors)
    SELECT (SELECT span.at FROM span), $3::integer, g.instance, max(g.hostname), max(g.port), max(g.pid),
           avg(g.cpu_user), avg(g.cpu_system), avg(g.rss_bytes), avg(g.heap_bytes), avg(g.goroutines), avg(g.pool_size),
           avg(g.pool_idle), avg(g.pool_active), sum(g.db_errors)
      FROM gone_instance g
     GROUP BY g.instance
    ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM gone) AS replaced, (SELECT count(*) FROM gone_instance) AS instances FROM span
