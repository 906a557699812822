-- Locks queue $1 before a group of the queue is deleted, so no partition and no group is created.
SELECT q.id FROM belfry.queue q
 WHERE q.id = $1::bigint
   FOR NO KEY UPDATE
