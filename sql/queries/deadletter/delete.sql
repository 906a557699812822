-- Deletes the dead letters with the ids $1, which they have in life $2 of the database, but for those that somebody works on:
-- who waited here, holding others, could be in a deadlock with the deletion of a
-- message, which takes those of one message in another order.
DELETE FROM belfry.dead_letter l
 WHERE l.id = ANY (ARRAY (
        SELECT d.id FROM belfry.dead_letter d
         WHERE d.id = ANY ($1::bigint[]) AND belfry.epoch() = $2::bigint
           FOR UPDATE SKIP LOCKED))
