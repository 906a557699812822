-- Deletes up to $3 failed attempts of group $2 in partitions $1. The cursors of the group in these
-- partitions are deleted already, so no new attempt can be added.
DELETE FROM belfry.attempt a
 WHERE a.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.attempt d
         WHERE d.partition_id = ANY ($1::bigint[]) AND d.group_id = $2::bigint
           AND EXISTS (SELECT 1 FROM belfry.group_deleted g WHERE g.group_id = $2::bigint)
         LIMIT $3::bigint))
