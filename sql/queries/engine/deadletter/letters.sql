-- Reads the dead letters with the ids $1, in the order of $1. It has the columns of list.sql.
SELECT l.id, l.failed_at, l.attempts, coalesce(l.error, '') AS error, q.name AS queue_name, g.name AS group_name, p.name AS partition_name,
       p.uid AS partition_uid, m.id AS message_id, m.transaction_id, m.payload, coalesce(m.encrypted, false) AS encrypted,
       m.producer_sub, m.created_at, m.headers
  FROM unnest($1::bigint[]) WITH ORDINALITY AS w(id, nth)
 CROSS JOIN LATERAL (
        SELECT d.id, d.failed_at, d.attempts, d.error, d.partition_id, d.group_id, d.seq
          FROM belfry.dead_letter d WHERE d.id = w.id OFFSET 0) AS l
  JOIN belfry.consumer_group g ON g.id = l.group_id
  JOIN belfry.queue q ON q.id = g.queue_id AND q.deleted_at IS NULL
 CROSS JOIN LATERAL (SELECT p.name, p.uid FROM belfry.partition p WHERE p.id = l.partition_id OFFSET 0) AS p
  LEFT JOIN LATERAL (
        SELECT m.id, m.transaction_id, m.payload, m.encrypted, m.producer_sub, m.created_at, m.headers
          FROM belfry.message m
         WHERE m.partition_id = l.partition_id AND m.seq = l.seq OFFSET 0) AS m ON true
 ORDER BY w.nth
