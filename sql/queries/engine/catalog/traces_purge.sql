-- Deletes up to $2 traces of the closed partitions $1, with their names.
DELETE FROM belfry.trace t
 WHERE t.id = ANY (ARRAY (
        SELECT d.id
          FROM belfry.trace d
         WHERE d.partition_id = ANY (ARRAY (SELECT p.id FROM belfry.partition p WHERE p.id = ANY ($1::bigint[]) AND p.closed))
         LIMIT $2::bigint))
