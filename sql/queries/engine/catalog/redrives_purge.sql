-- Deletes up to $2 redrives of the closed partitions $1. The cursors of these partitions are deleted
-- already, so no session changes the redrives, and the ctid of a redrive is stable.
DELETE FROM belfry.redrive r
 WHERE r.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.redrive d
         WHERE d.partition_id = ANY (ARRAY (SELECT p.id FROM belfry.partition p WHERE p.id = ANY ($1::bigint[]) AND p.closed))
         LIMIT $2::bigint))
