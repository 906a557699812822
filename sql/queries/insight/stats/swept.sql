-- Reads the counts of sweeps for queue $1. No row: no sweep has changed the queue.
SELECT w.retention, w.completed, w.evicted, w.unread, w.expired, w.skipped
  FROM belfry.queue_sweep w
 WHERE w.queue_id = $1::bigint
