-- Finds or creates queues and partitions by name; see belfry.open_partitions. $1 queue names, $2
-- partition names (pairs). A new queue gets lease time $3, retry limit $4, retryDelay $5, retryBackoff
-- $6 and retryDelayMax $7. New partitions get the tenants $8 (NULL, or one for each pair). is_new and queue_is_new: the row is not in the snapshot of this statement, so
-- it was created after the snapshot. The ids are valid in the returned epoch.
SELECT o.queue_name, o.partition_name, o.queue_id, o.partition_id, o.partition_uid, o.sealed,
       coalesce((SELECT q.max_size > 0 FROM belfry.queue q WHERE q.id = o.queue_id), false) AS bounded,
       (SELECT p.id FROM belfry.partition p WHERE p.id = o.partition_id) IS NULL AS is_new,
       (SELECT q.id FROM belfry.queue q WHERE q.id = o.queue_id) IS NULL AS queue_is_new,
       belfry.epoch() AS epoch
  FROM belfry.open_partitions($1::text[], $2::text[], $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::text[]) AS o
