-- Deletes up to $2 of the oldest failed attempts that exceed the number $1. It skips locked rows, so it
-- waits for no ack.
DELETE FROM belfry.attempt a
 WHERE a.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.attempt d
         WHERE d.failed_at < (SELECT n.failed_at FROM belfry.attempt n ORDER BY n.failed_at DESC OFFSET $1::bigint - 1 LIMIT 1)
         ORDER BY d.failed_at
         LIMIT $2::bigint
           FOR UPDATE SKIP LOCKED))
