-- Locks queue $1 against new partitions and groups, before a group of it is deleted.
SELECT q.id FROM belfry.queue q
 WHERE q.id = $1::bigint
   FOR NO KEY UPDATE
