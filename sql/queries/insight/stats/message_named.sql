-- Finds the message with transaction id $3 in the partition named $2 of the queues $1. It reads one index entry for each queue.
SELECT p.id, m.created_at, m.seq
  FROM belfry.partition p
 CROSS JOIN LATERAL (
        SELECT m.created_at, m.seq FROM belfry.message m
         WHERE m.partition_id = p.id AND m.transaction_id = $3::text OFFSET 0) AS m
 WHERE p.queue_id = ANY ($1::bigint[]) AND p.name = $2::text AND NOT p.closed
