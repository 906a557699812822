-- Waits for a cursor that rearm_lock.sql found held, and locks it: one at a time, so
-- that nobody waits for whoever waits here. $1: partition id, $2: group id.
SELECT c.partition_id
  FROM belfry.cursor c
 WHERE c.partition_id = $1::bigint AND c.group_id = $2::bigint
   FOR NO KEY UPDATE
