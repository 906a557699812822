-- Leases the running job that has been without a lease for the longest time. $1 lease id, $2 seconds of the lease, $3 instance.
-- A count of another epoch is outdated.
UPDATE belfry.redrive_job j
   SET lease_id = $1::uuid, lease_until = clock_timestamp() + make_interval(secs => $2::float8), instance = $3::text
 WHERE j.id = (SELECT r.id FROM belfry.redrive_job r
                WHERE r.state = 'running' AND coalesce(r.lease_until <= clock_timestamp(), true)
                ORDER BY r.lease_until NULLS FIRST
                LIMIT 1
                  FOR UPDATE SKIP LOCKED)
RETURNING j.id, j.queue, j.consumer_group, j.partition, j.transaction_id, j.error, j.failed_from, j.failed_to, j.rate, j.matched - j.redriven AS remaining,
          j.snapshot::text, j.counted_at, j.epoch, j.epoch <> belfry.epoch() AS outdated
