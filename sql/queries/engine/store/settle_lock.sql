-- Locks a cursor that was due although the claim found no visible message. $1 partition id, $2 group id.
SELECT c.committed
  FROM belfry.cursor c
 WHERE c.partition_id = $1::bigint AND c.group_id = $2::bigint
   FOR NO KEY UPDATE
