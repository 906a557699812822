-- Finds messages by names. Arrays with one element for each message: $1 queues, $2 partitions, $3 transaction ids. number: the
-- position in the arrays, from 1. It reads a few index entries for each message.
SELECT k.number, p.id, m.seq
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(queue, partition, transaction_id, number)
  JOIN belfry.queue q ON q.name = k.queue AND q.deleted_at IS NULL
  JOIN belfry.partition p ON p.queue_id = q.id AND p.name = k.partition AND NOT p.closed
 CROSS JOIN LATERAL (
        SELECT m.seq FROM belfry.message m WHERE m.partition_id = p.id AND m.transaction_id = k.transaction_id OFFSET 0) AS m
