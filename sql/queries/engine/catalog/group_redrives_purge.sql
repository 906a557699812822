-- Deletes up to $3 redrives of group $2 in partitions $1. The cursors of the group in these partitions
-- are deleted already, so no session changes the redrives, and the ctid of a redrive is stable.
DELETE FROM belfry.redrive r
 WHERE r.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.redrive d
         WHERE d.partition_id = ANY ($1::bigint[]) AND d.group_id = $2::bigint
           AND EXISTS (SELECT 1 FROM belfry.group_deleted g WHERE g.group_id = $2::bigint)
         LIMIT $3::bigint))
