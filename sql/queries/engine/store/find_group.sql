-- Looks up a consumer group by name. $1 queue, $2 group, $3 partition or NULL. Returns one row if the
-- queue exists. partition_id is NULL if the partition does not exist. group_id is NULL if join_group.sql
-- must register the group first. joining: some partitions have no cursor of the group yet. The ids are
-- valid in the returned epoch.
SELECT q.id AS queue_id, p.id AS partition_id,
       CASE WHEN g.whole_queue AND (g.joined_upto IS NULL OR $3::text IS NULL) OR (
                SELECT true FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = g.id)
            THEN g.id END AS group_id,
       coalesce($3::text IS NULL AND g.joined_upto IS NOT NULL, false) AS joining,
       belfry.epoch() AS epoch
  FROM belfry.queue q
  LEFT JOIN LATERAL (
        SELECT g.id, g.whole_queue, g.joined_upto FROM belfry.consumer_group g
         WHERE g.queue_id = q.id AND g.name = $2::text OFFSET 0) AS g ON true
  LEFT JOIN LATERAL (
        SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = $3::text OFFSET 0) AS p ON true
 WHERE q.name = $1::text AND q.deleted_at IS NULL
