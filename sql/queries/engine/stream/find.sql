-- Finds a stream by source ($1) and name ($2), and locks it against other changes.
SELECT s.id, s.uid, s.config_hash FROM belfry.stream s WHERE s.source = $1::text AND s.name = $2::text FOR UPDATE
