-- Lists at most $4 partitions by queue id and name, after the queue $1 and the name $2, up to the queue
-- $3. The cost grows only with $4.
SELECT p.id, p.queue_id, p.name
  FROM belfry.partition p
 WHERE (p.queue_id, p.name) > ($1::bigint, $2::text) AND p.queue_id <= $3::bigint
 ORDER BY p.queue_id, p.name
 LIMIT $4::bigint
