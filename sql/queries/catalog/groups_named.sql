-- Where a group named $1 is known: queue and group, in which life of the database. $2: in
-- this queue only; NULL: in all.
SELECT g.queue_id, g.id AS group_id, belfry.epoch() AS life
  FROM belfry.consumer_group g
 CROSS JOIN LATERAL (
        SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE g.name = $1::text AND ($2::text IS NULL OR q.name = $2::text)
 ORDER BY g.queue_id
