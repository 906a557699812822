-- Locks queue $1 against births of partitions and groups, before one of its
-- groups is deleted.
SELECT q.id FROM belfry.queue q
 WHERE q.id = $1::bigint
   FOR NO KEY UPDATE
