-- Lists the groups named $1, one for each queue that is not deleted. $2: only the group of this queue
-- (NULL: of any queue). The ids are valid only in the epoch of the row: after a failover or a restore,
-- an id may belong to another row. group_delete.sql compares the epoch.
SELECT g.queue_id, g.id AS group_id, belfry.epoch() AS epoch
  FROM belfry.consumer_group g
 CROSS JOIN LATERAL (
        SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE g.name = $1::text AND ($2::text IS NULL OR q.name = $2::text)
 ORDER BY g.queue_id
