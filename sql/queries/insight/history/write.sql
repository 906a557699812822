-- Writes the history of an instance for some minutes: $1 the rows of queues and groups, $2 the rows of
-- the instance. Both are JSON arrays of objects with the column names. An existing row is not changed,
-- so the same rows may be written again.
WITH instance AS (
    INSERT INTO belfry.history_instance (at, minutes, instance, hostname, port, pid, cpu_user, cpu_system, rss_bytes, heap_bytes, goroutines,
        pool_size, pool_idle, pool_active, db_errors)
    SELECT r.at, r.minutes, r.instance, r.hostname, r.port, r.pid, r.cpu_user, r.cpu_system, r.rss_bytes, r.heap_bytes,
           r.goroutines, r.pool_size, r.pool_idle, r.pool_active, r.db_errors
      FROM json_populate_recordset(NULL::belfry.history_instance, $2::json) AS r
    ON CONFLICT DO NOTHING
)
INSERT INTO belfry.history (at, minutes, instance, queue, consumer_group, push_requests, push_messages, pop_requests, pop_messages,
    pop_empty, ack_requests, ack_success, ack_failed, ack_retried, ack_refused, dead_letters, transactions, partitions_created,
    partitions_deleted, removed_retention, removed_completed, removed_evicted, lag_sum, lag_max, lag_count,
    latency, parked, depth, oldest_at, counted_at)
SELECT r.at, r.minutes, r.instance, r.queue, r.consumer_group, r.push_requests, r.push_messages, r.pop_requests,
       r.pop_messages, r.pop_empty, r.ack_requests, r.ack_success, r.ack_failed, r.ack_retried, r.ack_refused, r.dead_letters, r.transactions,
       r.partitions_created, r.partitions_deleted, r.removed_retention, r.removed_completed, r.removed_evicted,
       r.lag_sum, r.lag_max, r.lag_count, r.latency, r.parked, r.depth, r.oldest_at, r.counted_at
  FROM json_populate_recordset(NULL::belfry.history, $1::json) AS r
ON CONFLICT DO NOTHING
