-- Deletes up to $2 messages of the closed partitions $1. Messages never change,
-- so the place of a row names it.
DELETE FROM belfry.message m
 WHERE m.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.message d
         WHERE d.partition_id = ANY ($1::bigint[])
         LIMIT $2::bigint))
