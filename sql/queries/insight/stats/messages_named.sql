-- Finds messages by names. Arrays with one element for each message: $1 queues, $2 partitions, $3 transaction ids, $4 groups ('': none).
-- number: the position in the arrays, from 1. unfinished: the group has not finished the message. It reads a few index entries for
-- each message. OFFSET 0 keeps the planner from reading all partitions.
SELECT k.number, p.id, m.seq,
       k.group_name <> '' AND (
           NOT coalesce(c.committed >= m.seq OR m.seq <@ c.skip, false)
           OR EXISTS (SELECT FROM belfry.redrive r WHERE r.partition_id = p.id AND r.group_id = g.id AND r.seq = m.seq)) AS unfinished
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS k(queue, partition, transaction_id, group_name, number)
 CROSS JOIN LATERAL (SELECT q.id FROM belfry.queue q WHERE q.name = k.queue AND q.deleted_at IS NULL OFFSET 0) AS q
 CROSS JOIN LATERAL (
        SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = k.partition AND NOT p.closed OFFSET 0) AS p
 CROSS JOIN LATERAL (
        SELECT m.seq FROM belfry.message m WHERE m.partition_id = p.id AND m.transaction_id = k.transaction_id OFFSET 0) AS m
  LEFT JOIN LATERAL (
        SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = q.id AND g.name = k.group_name OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (
        SELECT c.committed, c.skip FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = g.id OFFSET 0) AS c ON true
