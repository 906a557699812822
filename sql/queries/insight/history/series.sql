-- Sums the counters from $1 to $2 in buckets of $3 seconds, the newest first. $4: LIKE patterns of queue
-- names (NULL: any), $5 queues, $6 a group, $7 a namespace, $8 a task (NULL: any). $9: one row for each
-- bucket and queue, for the $10 queues with the most messages. $11: rows that may not be written yet, as
-- a JSON array of objects with the column names. If belfry.history has such a row already, the row of
-- $11 is left out.
WITH summed AS MATERIALIZED (
    SELECT date_bin(make_interval(secs => $3::bigint), h.at, 'epoch') AS at, CASE WHEN $9::boolean THEN h.queue ELSE '' END AS queue,
           sum(h.push_requests)::bigint AS push_requests, sum(h.push_messages)::bigint AS push_messages,
           sum(h.pop_requests)::bigint AS pop_requests, sum(h.pop_messages)::bigint AS pop_messages,
           sum(h.pop_empty)::bigint AS pop_empty, sum(h.ack_requests)::bigint AS ack_requests,
           sum(h.ack_success)::bigint AS ack_success, sum(h.ack_failed)::bigint AS ack_failed,
           sum(h.ack_retried)::bigint AS ack_retried, sum(h.ack_refused)::bigint AS ack_refused,
           sum(h.dead_letters)::bigint AS dead_letters, sum(h.transactions)::bigint AS transactions,
           sum(h.partitions_created)::bigint AS partitions_created,
           sum(h.partitions_deleted)::bigint AS partitions_deleted,
           sum(h.removed_retention)::bigint AS removed_retention, sum(h.removed_completed)::bigint AS removed_completed,
           sum(h.removed_evicted)::bigint AS removed_evicted, sum(h.lag_sum)::bigint AS lag_sum,
           max(h.lag_max)::bigint AS lag_max, sum(h.lag_count)::bigint AS lag_count,
           count(*) FILTER (WHERE h.removed_retention + h.removed_completed + h.removed_evicted > 0) AS removals
      FROM (
      SELECT w.at, w.queue, w.consumer_group, w.push_requests, w.push_messages,
             w.pop_requests, w.pop_messages, w.pop_empty, w.ack_requests, w.ack_success,
             w.ack_failed, w.ack_retried, w.ack_refused, w.dead_letters, w.transactions, w.partitions_created,
             w.partitions_deleted, w.removed_retention, w.removed_completed, w.removed_evicted,
             w.lag_sum, w.lag_max, w.lag_count
        FROM belfry.history w
       UNION ALL
      SELECT o.at, o.queue, o.consumer_group, o.push_requests, o.push_messages,
             o.pop_requests, o.pop_messages, o.pop_empty, o.ack_requests, o.ack_success,
             o.ack_failed, o.ack_retried, o.ack_refused, o.dead_letters, o.transactions, o.partitions_created,
             o.partitions_deleted, o.removed_retention, o.removed_completed, o.removed_evicted,
             o.lag_sum, o.lag_max, o.lag_count
        FROM json_populate_recordset(NULL::belfry.history, $11::json) o
       WHERE NOT EXISTS (SELECT 1 FROM belfry.history_instance i WHERE i.at = o.at AND i.minutes = o.minutes AND i.instance = o.instance)) h
     WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz
       AND ($4::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($4::text[]))
       AND ($5::text[] IS NULL OR h.queue IN (SELECT unnest($5::text[])))
       AND ($6::text IS NULL OR h.consumer_group = $6::text)
       AND ($7::text IS NULL OR h.queue IN (SELECT q.name FROM belfry.queue q WHERE q.namespace = $7::text AND q.deleted_at IS NULL))
       AND ($8::text IS NULL OR h.queue IN (SELECT q.name FROM belfry.queue q WHERE q.task = $8::text AND q.deleted_at IS NULL))
     GROUP BY 1, 2
)
SELECT s.at, s.queue, s.push_requests, s.push_messages, s.pop_requests, s.pop_messages, s.pop_empty, s.ack_requests, s.ack_success,
       s.ack_failed, s.ack_retried, s.ack_refused, s.dead_letters, s.transactions, s.partitions_created, s.partitions_deleted,
       s.removed_retention, s.removed_completed, s.removed_evicted, s.lag_sum, s.lag_max, s.lag_count, s.removals
  FROM summed s
 WHERE s.queue IN (
        SELECT b.queue FROM summed b GROUP BY b.queue ORDER BY sum(b.push_messages + b.pop_messages) DESC, b.queue LIMIT $10::bigint)
 ORDER BY s.at DESC, s.queue
