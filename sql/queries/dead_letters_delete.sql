-- Deletes the dead letters with the ids $1.
DELETE FROM belfry.dead_letter d
 WHERE d.id = ANY ($1::bigint[])
