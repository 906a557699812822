-- Returns the seconds until the first lease of a running job ends. NULL: no job runs.
SELECT extract(epoch FROM min(j.lease_until) - clock_timestamp())::float8 AS seconds FROM belfry.redrive_job j WHERE j.state = 'running'
