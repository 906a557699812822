-- Waits for one cursor that rearm_lock.sql found locked, and locks it. One cursor at a time: no
-- session can wait for this one meanwhile. $1 partition id, $2 group id.
SELECT c.partition_id, c.group_id, true AS locked
  FROM belfry.cursor c
 WHERE c.partition_id = $1::bigint AND c.group_id = $2::bigint
   FOR NO KEY UPDATE
