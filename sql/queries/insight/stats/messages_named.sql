-- Finds messages by names. Arrays with one element for each message: $1 queues, $2 partitions, $3 transaction ids, $4 groups ('': none).
-- number: the position in the arrays, from 1. unfinished: the group has not finished the message. It reads a few index entries for
-- each message.
SELECT k.number, p.id, m.seq,
       k.group_name <> '' AND (
           NOT coalesce(c.committed >= m.seq OR m.seq <@ c.skip, false)
           OR EXISTS (SELECT FROM belfry.redrive r WHERE r.partition_id = p.id AND r.group_id = g.id AND r.seq = m.seq)) AS unfinished
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS k(queue, partition, transaction_id, group_name, number)
  JOIN belfry.queue q ON q.name = k.queue AND q.deleted_at IS NULL
  JOIN belfry.partition p ON p.queue_id = q.id AND p.name = k.partition AND NOT p.closed
 CROSS JOIN LATERAL (
        SELECT m.seq FROM belfry.message m WHERE m.partition_id = p.id AND m.transaction_id = k.transaction_id OFFSET 0) AS m
  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = k.group_name
  LEFT JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id
