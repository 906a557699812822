-- Deletes the closed partitions $1, which are empty.
DELETE FROM belfry.partition p
 WHERE p.id = ANY ($1::bigint[]) AND p.closed
