-- Goes on holding job $1 for holder $2, for $3 more seconds. No row: it was lost.
UPDATE belfry.sweep s
   SET held_until = clock_timestamp() + make_interval(secs => $3::float8)
 WHERE s.job = $1::text AND s.holder = $2::uuid AND s.held_until IS NOT NULL
RETURNING s.job
