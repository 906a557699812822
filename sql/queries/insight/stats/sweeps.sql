-- Lists the sweep jobs: whether the job is running, and when its next run is due.
SELECT s.job, coalesce(s.held_until > statement_timestamp(), false) AS running, s.next_at
  FROM belfry.sweep s
 ORDER BY s.job
