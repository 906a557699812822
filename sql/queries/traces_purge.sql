-- Deletes up to $2 traces of the closed partitions $1, with their names.
DELETE FROM belfry.trace t
 WHERE t.id = ANY (ARRAY (
        SELECT d.id
          FROM belfry.trace d
         WHERE d.partition_id = ANY ($1::bigint[])
         LIMIT $2::bigint))
