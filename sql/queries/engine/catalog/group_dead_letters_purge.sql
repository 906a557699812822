-- Deletes up to $3 dead letters of group $2 in partitions $1. The cursors of the group in these
-- partitions are deleted already, so no new dead letter can be added.
DELETE FROM belfry.dead_letter l
 WHERE l.id = ANY (ARRAY (
        SELECT d.id
          FROM belfry.dead_letter d
         WHERE d.partition_id = ANY ($1::bigint[]) AND d.group_id = $2::bigint
           AND EXISTS (SELECT 1 FROM belfry.group_deleted g WHERE g.group_id = $2::bigint)
         LIMIT $3::bigint))
