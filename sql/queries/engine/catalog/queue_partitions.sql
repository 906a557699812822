-- Lists the partitions of queue $1 above id $2, at most $3, in id order.
SELECT p.id
  FROM belfry.partition p
 WHERE p.queue_id = $1::bigint AND p.id > $2::bigint
 ORDER BY p.id
 LIMIT $3::bigint
