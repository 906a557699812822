-- Lists partitions of the queue of group $1 above id $2, at most $3, in id order. They get a wake
-- after the cursors of the group were created.
SELECT p.id
  FROM belfry.partition p
 WHERE p.queue_id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = $1::bigint) AND p.id > $2::bigint
 ORDER BY p.id
 LIMIT $3::bigint
