-- The sweeps: whether one is running, and when the next is due.
SELECT s.job, coalesce(s.held_until > statement_timestamp(), false) AS running, s.next_at
  FROM belfry.sweep s
 ORDER BY s.job
