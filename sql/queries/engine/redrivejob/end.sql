-- Ends the job $1 of the lease $2 in the state $3 with the failure $4 (NULL: none). A NULL state only gives the lease back.
UPDATE belfry.redrive_job j
   SET state = coalesce($3::text, j.state), failure = $4::text, lease_id = NULL, lease_until = NULL,
       ended_at = CASE WHEN $3::text IS NOT NULL THEN clock_timestamp() END
 WHERE j.id = $1::uuid AND j.lease_id = $2::uuid AND j.state = 'running'
