-- Adds $3 redriven messages to the job $1 and renews its lease $2 for $4 seconds, in the transaction of the redrive. No row: the
-- job was stopped, or another instance has the lease. The row of the audit gets the count too.
WITH job AS (
    UPDATE belfry.redrive_job j
       SET redriven = j.redriven + $3::bigint, lease_until = clock_timestamp() + make_interval(secs => $4::float8)
     WHERE j.id = $1::uuid AND j.lease_id = $2::uuid AND j.state = 'running'
    RETURNING j.id, j.redriven
), audited AS (
    UPDATE belfry.audit a SET counts = json_build_object('deadLetters', job.redriven) FROM job WHERE a.id = job.id
)
SELECT job.redriven FROM job
