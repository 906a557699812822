-- What sweeps did to queue $1; no row when they did nothing.
SELECT w.retention, w.completed, w.evicted, w.unread, w.expired, w.skipped
  FROM belfry.queue_sweep w
 WHERE w.queue_id = $1::bigint
