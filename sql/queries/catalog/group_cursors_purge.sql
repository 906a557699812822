-- Deletes the cursors of group $2, if its deletion has begun, in partitions $1. Its only plan walks the
-- primary key, so it locks them in the order of everybody.
DELETE FROM belfry.cursor c
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.group_id = $2::bigint
   AND EXISTS (SELECT 1 FROM belfry.group_deleted d WHERE d.group_id = $2::bigint)
