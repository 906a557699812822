-- Extends the hold of holder $2 on job $1 to $3 seconds from now. No row: $2 is not the holder any more.
UPDATE belfry.sweep s
   SET held_until = clock_timestamp() + make_interval(secs => $3::float8)
 WHERE s.job = $1::text AND s.holder = $2::uuid AND s.held_until IS NOT NULL
RETURNING s.job
