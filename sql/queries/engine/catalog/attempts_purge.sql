-- Deletes up to $2 rows of belfry.attempt of the closed partitions $1.
DELETE FROM belfry.attempt a
 WHERE a.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.attempt d
         WHERE d.partition_id = ANY (ARRAY (SELECT p.id FROM belfry.partition p WHERE p.id = ANY ($1::bigint[]) AND p.closed))
         LIMIT $2::bigint))
