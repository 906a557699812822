-- Returns whether the payloads of queue $1 are encrypted, and whether queue $2 exists.
SELECT coalesce((SELECT q.encryption_enabled FROM belfry.queue q WHERE q.name = $1::text AND q.deleted_at IS NULL), false) AS sealed,
       EXISTS (SELECT 1 FROM belfry.queue q WHERE q.name = $2::text AND q.deleted_at IS NULL) AS target
