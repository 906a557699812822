-- Reads the queues of partitions by uid ($1).
SELECT p.uid, q.name
  FROM belfry.partition p
 CROSS JOIN LATERAL (
        SELECT q.name FROM belfry.queue q WHERE q.id = p.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE p.uid = ANY ($1::uuid[]) AND NOT p.closed
