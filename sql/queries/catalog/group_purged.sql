-- Forgets group $1, of which nothing is left.
DELETE FROM belfry.group_deleted d
 WHERE d.group_id = $1::bigint
