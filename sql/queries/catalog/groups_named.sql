-- Lists the queues that have a group named $1, with the id of the group and the epoch in which the
-- ids are valid. $2: only in this queue. NULL: in all.
SELECT g.queue_id, g.id AS group_id, belfry.epoch() AS epoch
  FROM belfry.consumer_group g
 CROSS JOIN LATERAL (
        SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE g.name = $1::text AND ($2::text IS NULL OR q.name = $2::text)
 ORDER BY g.queue_id
