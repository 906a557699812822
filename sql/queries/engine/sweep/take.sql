-- Takes the run of job $1 for holder $2 if the run is due and has no holder. The hold lasts $3 seconds,
-- and the next run is due in $4 seconds. No row: the run is not due, or has another holder.
INSERT INTO belfry.sweep AS s (job, holder, held_until, next_at)
VALUES ($1::text, $2::uuid, clock_timestamp() + make_interval(secs => $3::float8), clock_timestamp() + make_interval(secs => $4::float8))
ON CONFLICT (job) DO UPDATE
   SET holder = excluded.holder, held_until = excluded.held_until, next_at = excluded.next_at
 WHERE s.next_at <= clock_timestamp() AND coalesce(s.held_until <= clock_timestamp(), true)
RETURNING s.job
