-- Deletes up to $2 messages of the closed partitions $1, if they are closed: a deletion
-- may be undone by a backup that is put back while this runs. Messages never change, so
-- the place of a row names it.
DELETE FROM belfry.message m
 WHERE m.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.message d
         WHERE d.partition_id = ANY (ARRAY (SELECT p.id FROM belfry.partition p WHERE p.id = ANY ($1::bigint[]) AND p.closed))
         LIMIT $2::bigint))
