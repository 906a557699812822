-- Begins the deletion of the live queue named $1. The name is free after the commit.
UPDATE belfry.queue q
   SET deleted_at = clock_timestamp()
 WHERE q.name = $1::text AND q.deleted_at IS NULL
RETURNING q.id
