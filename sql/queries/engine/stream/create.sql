-- Creates a stream: $1 uid, $2 source, $3 name, $4 sink (NULL: none), $5 hash. No row: it exists already.
INSERT INTO belfry.stream (uid, source, name, sink, config_hash)
VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text)
ON CONFLICT (source, name) DO NOTHING
RETURNING id
