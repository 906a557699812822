-- Returns the id of the queue $1, and whether its new payloads are encrypted.
SELECT q.id, q.encryption_enabled FROM belfry.queue q WHERE q.name = $1::text AND q.deleted_at IS NULL
