-- Deletes the deletion record of group $1, after everything else of the group was deleted.
DELETE FROM belfry.group_deleted d
 WHERE d.group_id = $1::bigint
