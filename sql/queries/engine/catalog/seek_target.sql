-- Looks up the target of a seek. $1 queue, $2 group, $3 partition or NULL. Returns one row if the queue
-- exists. group_id is NULL if the group does not exist, and partition_id if the partition does not
-- exist. The ids are valid in the returned epoch.
SELECT q.id AS queue_id, g.id AS group_id, p.id AS partition_id, belfry.epoch() AS epoch
  FROM belfry.queue q
  LEFT JOIN LATERAL (
        SELECT g.id FROM belfry.consumer_group g
         WHERE g.queue_id = q.id AND g.name = $2::text OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (
        SELECT p.id FROM belfry.partition p
         WHERE p.queue_id = q.id AND p.name = $3::text AND NOT p.closed OFFSET 0) AS p ON true
 WHERE q.name = $1::text AND q.deleted_at IS NULL
