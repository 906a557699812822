-- Deletes the dead letters with the ids $1, if $2 is the epoch. It skips locked dead letters: to wait
-- for a lock could cause a deadlock with the deletion of a message, which locks in another order.
DELETE FROM belfry.dead_letter l
 WHERE l.id = ANY (ARRAY (
        SELECT d.id FROM belfry.dead_letter d
         WHERE d.id = ANY ($1::bigint[]) AND belfry.epoch() = $2::bigint
           FOR UPDATE SKIP LOCKED))
