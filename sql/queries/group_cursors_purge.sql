-- Deletes the cursors of group $2 in partitions $1. Its only plan walks the
-- primary key, so it locks them in the order of everybody.
DELETE FROM belfry.cursor c
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.group_id = $2::bigint
