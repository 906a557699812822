-- Stops the job $1. Returns whether the job ran.
UPDATE belfry.redrive_job j
   SET state = CASE WHEN j.state = 'running' THEN 'stopped' ELSE j.state END, ended_at = coalesce(j.ended_at, clock_timestamp()),
       lease_until = CASE WHEN j.state = 'running' THEN NULL ELSE j.lease_until END
  FROM (SELECT o.id, o.state FROM belfry.redrive_job o WHERE o.id = $1::uuid FOR UPDATE) AS old
 WHERE j.id = old.id
RETURNING old.state = 'running' AS ran
