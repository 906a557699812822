-- Sets the uid $2 and the creation time $3 of the source in queue $1 (id).
UPDATE belfry.queue q SET uid = $2::uuid, created_at = $3::timestamptz WHERE q.id = $1::bigint
