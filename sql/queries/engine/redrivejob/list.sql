-- Lists the jobs, the newest first. $1: only this job, or NULL. $2: only jobs of queues that match these LIKE patterns, or NULL.
-- $3: jobs at most.
SELECT j.id, j.queue, j.consumer_group, j.partition, j.transaction_id, j.error, j.failed_from, j.failed_to, j.rate, j.matched, j.redriven,
       j.subject, j.created_at, j.ended_at, j.state, j.failure, j.instance
  FROM belfry.redrive_job j
 WHERE ($1::uuid IS NULL OR j.id = $1::uuid) AND ($2::text[] IS NULL OR j.queue COLLATE "C" LIKE ANY ($2::text[]))
 ORDER BY j.created_at DESC, j.id DESC
 LIMIT $3::bigint
