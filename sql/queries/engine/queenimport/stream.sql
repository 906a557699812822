-- Creates or updates stream $1 (uid): $2 source, $3 name, $4 sink, $5 hash, $6 creation time. Returns its id.
INSERT INTO belfry.stream AS s (uid, source, name, sink, config_hash, created_at)
VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::timestamptz)
ON CONFLICT (source, name) DO UPDATE SET uid = excluded.uid, sink = excluded.sink, config_hash = excluded.config_hash
RETURNING s.id
