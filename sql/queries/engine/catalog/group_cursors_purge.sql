-- Deletes the cursors of group $2 in partitions $1, if its deletion has begun. Its only plan walks
-- the index by (partition, group), so it locks them in that order.
DELETE FROM belfry.cursor c
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.group_id = $2::bigint
   AND EXISTS (SELECT 1 FROM belfry.group_deleted d WHERE d.group_id = $2::bigint)
