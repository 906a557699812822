-- Deletes up to $2 tenants of the deleted queue $1. Its partitions are deleted.
DELETE FROM belfry.tenant t
 WHERE t.id = ANY (ARRAY (
        SELECT d.id FROM belfry.tenant d
         WHERE d.queue_id = (SELECT q.id FROM belfry.queue q WHERE q.id = $1::bigint AND q.deleted_at IS NOT NULL)
         LIMIT $2::bigint))
