-- The partitions of group $1's queue above id $2, $3 at most, in id order: what
-- to wake after its cursors were made.
SELECT p.id
  FROM belfry.partition p
 WHERE p.queue_id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = $1::bigint) AND p.id > $2::bigint
 ORDER BY p.id
 LIMIT $3::bigint
