-- Finds or creates queues and partitions by name: see the function. $1 queue
-- names, $2 partition names (pairs), $3 lease time and $4 retry limit of a
-- queue born here.
SELECT o.queue_name, o.partition_name, o.queue_id, o.partition_id, o.partition_uid, o.sealed
  FROM belfry.open_partitions($1::text[], $2::text[], $3::bigint, $4::bigint) AS o
