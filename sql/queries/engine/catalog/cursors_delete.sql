-- Deletes the cursors of partitions $1. Locks them in (partition, group) order.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($1::bigint[])
     ORDER BY c.partition_id, c.group_id
       FOR UPDATE
)
DELETE FROM belfry.cursor c
 USING held h
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.partition_id = h.partition_id AND c.group_id = h.group_id
