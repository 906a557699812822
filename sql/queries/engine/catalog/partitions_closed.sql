-- Lists up to $2 closed partitions of queue $1.
SELECT p.id
  FROM belfry.partition p
 WHERE p.queue_id = $1::bigint AND p.closed
 ORDER BY p.id + 0 -- + 0 avoids the order of an index
 LIMIT $2::bigint
