-- Reads what sweeps have done to queue $1. No row: nothing.
SELECT w.retention, w.completed, w.evicted, w.unread, w.expired, w.skipped
  FROM belfry.queue_sweep w
 WHERE w.queue_id = $1::bigint
