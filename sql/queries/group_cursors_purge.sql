-- Deletes the cursors of group $2 in partitions $1, locking them in the order of
-- everybody.
WITH held AS MATERIALIZED (
    SELECT c.partition_id
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($1::bigint[]) AND c.group_id = $2::bigint
     ORDER BY c.partition_id
       FOR UPDATE
)
DELETE FROM belfry.cursor c
 USING held h
 WHERE c.partition_id = ANY ($1::bigint[]) AND c.partition_id = h.partition_id AND c.group_id = $2::bigint
