-- Deletes the cursors of group $2 in partitions $1, if the deletion of the group has begun. The only
-- plan uses the index by (partition, group), so the statement locks the cursors in that order.
DELETE FROM belfry.cursor c
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.group_id = $2::bigint
   AND EXISTS (SELECT 1 FROM belfry.group_deleted d WHERE d.group_id = $2::bigint)
