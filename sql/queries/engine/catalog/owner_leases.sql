-- Reads the queues and groups of the leases $1, including expired leases.
SELECT DISTINCT c.lease_id, q.name AS queue_name, g.name AS group_name
  FROM belfry.cursor c
 CROSS JOIN LATERAL (SELECT g.name, g.queue_id FROM belfry.consumer_group g WHERE g.id = c.group_id OFFSET 0) AS g
 CROSS JOIN LATERAL (
        SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE c.lease_id = ANY ($1::uuid[])
