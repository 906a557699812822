-- Reads at most $1 schedules that are due, the earliest first. $2 is added to the clock, in microseconds. The first row
-- always exists, and has the clock and the next due_at that is not due yet. Its id is NULL if no schedule is due.
-- $3: no schedule is due before this instant, or NULL. Without it, the read would visit each old entry of the index that a
-- vacuum has not removed.
-- busy: the group of overlap_group has not finished the last message of the schedule.
WITH due AS MATERIALIZED (
    SELECT s.id, s.name, s.queue, s.partition, s.cron, s.every_seconds, s.at, s.zone, s.starts, s.ends, s.jitter, s.missed, s.overlap_group,
           s.payload, s.headers, s.handled_to, s.changed_at, s.due_at, s.last_transaction_id, s.last_inbox_id
      FROM belfry.schedule s
     WHERE s.due_at <= statement_timestamp() + $2::bigint * interval '1 microsecond'
       AND s.due_at >= coalesce($3::timestamptz, '-infinity')
     ORDER BY s.due_at, s.id LIMIT $1::bigint
)
SELECT statement_timestamp() + $2::bigint * interval '1 microsecond' AS now,
       (SELECT s.due_at FROM belfry.schedule s
         WHERE s.due_at > statement_timestamp() + $2::bigint * interval '1 microsecond' ORDER BY s.due_at LIMIT 1) AS following,
       d.id, d.name, d.cron, d.every_seconds, d.at, d.zone, d.starts, d.ends,
       (extract(epoch FROM d.jitter) * 1000000)::bigint AS jitter, d.missed, d.overlap_group, d.payload::text, d.headers::text,
       d.handled_to, d.changed_at, d.queue,
       d.overlap_group IS NOT NULL AND d.last_transaction_id IS NOT NULL AND (
           EXISTS (SELECT FROM belfry.inbox i WHERE i.id = d.last_inbox_id)
           OR EXISTS (
               SELECT FROM belfry.queue q
                 JOIN belfry.partition p ON p.queue_id = q.id AND p.name = d.partition
                 JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = d.last_transaction_id
                 LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = d.overlap_group
                 LEFT JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id
                WHERE q.name = d.queue AND q.deleted_at IS NULL
                  AND (NOT coalesce(c.committed >= m.seq OR m.seq <@ c.skip, false)
                       OR EXISTS (SELECT FROM belfry.redrive r WHERE r.partition_id = p.id AND r.group_id = g.id AND r.seq = m.seq)))) AS busy
  FROM (SELECT 1) AS always
  LEFT JOIN due d ON true
 ORDER BY d.due_at, d.id
