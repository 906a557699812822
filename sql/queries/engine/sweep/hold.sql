-- Extends the hold of holder $2 on job $1 by $3 seconds. No row: the holder has lost it.
UPDATE belfry.sweep s
   SET held_until = clock_timestamp() + make_interval(secs => $3::float8)
 WHERE s.job = $1::text AND s.holder = $2::uuid AND s.held_until IS NOT NULL
RETURNING s.job
