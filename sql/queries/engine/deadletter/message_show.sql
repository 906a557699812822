-- Reads one message and the options of its queue. $1 uid of the partition, $2 transaction id.
SELECT p.id AS partition_id, m.seq, m.id, m.trace_id, m.producer_sub, m.created_at, m.visible_at, m.payload, m.encrypted, m.headers,
       p.name AS partition_name,
       q.name AS queue_name, q.namespace, q.task, q.priority, q.lease_time, q.retry_limit, q.retry_delay, q.ttl
  FROM belfry.partition p
  JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $2::text
  JOIN belfry.queue q ON q.id = p.queue_id AND q.deleted_at IS NULL
 WHERE p.uid = $1::uuid AND NOT p.closed
