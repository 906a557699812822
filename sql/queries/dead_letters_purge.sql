-- Deletes up to $2 dead letters of the closed partitions $1.
DELETE FROM belfry.dead_letter l
 WHERE l.id = ANY (ARRAY (
        SELECT d.id
          FROM belfry.dead_letter d
         WHERE d.partition_id = ANY ($1::bigint[])
         LIMIT $2::bigint))
