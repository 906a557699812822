-- The partitions of queue $1 above id $2, $3 at most, in id order.
SELECT p.id
  FROM belfry.partition p
 WHERE p.queue_id = $1::bigint AND p.id > $2::bigint
 ORDER BY p.id
 LIMIT $3::bigint
