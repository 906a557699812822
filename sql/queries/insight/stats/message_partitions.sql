-- Lists at most $5 partitions of the queues $1 (named $2; NULL: any) that may hold a message of status
-- $6 (empty: any) stored from $3 to $4. newest_at is an upper bound for the instant of the newest such
-- message. The partitions with the latest newest_at are first. It reads no messages. For a status it
-- reads the cursors or one dead letter of each partition.
SELECT p.id, p.newest_at
  FROM unnest($1::bigint[]) AS k(queue_id)
 CROSS JOIN LATERAL (
        SELECT p.id, p.last_seq, p.trimmed, p.closed, p.last_push_at, least(p.last_push_at, $4::timestamptz) AS newest_at
          FROM belfry.partition p
         WHERE $2::text IS NULL AND p.queue_id = k.queue_id
        UNION ALL
        SELECT p.id, p.last_seq, p.trimmed, p.closed, p.last_push_at, least(p.last_push_at, $4::timestamptz)
          FROM belfry.partition p
         WHERE p.queue_id = k.queue_id AND p.name = $2::text) AS p
 WHERE NOT p.closed AND p.last_seq > p.trimmed AND p.last_push_at >= $3::timestamptz
   AND CASE $6::text
       -- Not EXISTS: the planner would then hash all dead letters.
       WHEN 'dead_letter' THEN coalesce(
            (SELECT true FROM belfry.dead_letter l WHERE l.partition_id = p.id LIMIT 1), false)
       WHEN 'processing' THEN coalesce(
            (SELECT max(c.lease_until) FROM belfry.cursor c WHERE c.partition_id = p.id) > statement_timestamp(), false)
       WHEN 'pending' THEN coalesce(
            (SELECT min(CASE WHEN c.redrives > 0 THEN 0 ELSE c.committed END) FROM belfry.cursor c WHERE c.partition_id = p.id), 0) < p.last_seq
       WHEN 'completed' THEN coalesce(
            (SELECT bool_or(c.committed > p.trimmed OR c.skip IS NOT NULL) FROM belfry.cursor c WHERE c.partition_id = p.id), false)
       ELSE true END
 ORDER BY p.newest_at DESC, p.id DESC
 LIMIT $5::bigint
