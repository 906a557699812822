-- Deletes the row of group $1 in belfry.group_deleted, after all other rows of the group were deleted.
DELETE FROM belfry.group_deleted d
 WHERE d.group_id = $1::bigint
