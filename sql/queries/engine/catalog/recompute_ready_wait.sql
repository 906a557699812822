-- Locks the cursor of partition $1 and group $2 for recompute_ready.sql, and waits for the transaction
-- that has locked the cursor. The waiting transaction holds no other lock, so it blocks no session.
SELECT c.partition_id, c.group_id, true AS own
  FROM belfry.cursor c
 WHERE c.partition_id = $1::bigint AND c.group_id = $2::bigint
   FOR NO KEY UPDATE
