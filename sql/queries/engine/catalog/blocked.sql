-- Lists at most $4 partitions with an id above $3 that are blocked for the group $2 of the queue $1, by id. The
-- first unfinished message, its last error and the instant of the block are NULL if they are deleted. waiting counts
-- the unfinished messages of the log. If no partition is left, it returns one row without a partition. No row: the
-- group does not exist. The cost does not grow with the number of blocked partitions.
SELECT c.partition_id, p.name, p.uid, head.id AS message_id, head.transaction_id, head.created_at, c.failures, c.attempts,
       p.last_seq - c.committed - coalesce(belfry.skipped_after(c.skip, c.committed), 0) AS waiting, last.error, last.failed_at
  FROM belfry.queue q
  JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = $2::text
  LEFT JOIN LATERAL (
        SELECT c.partition_id, c.committed, c.skip, c.failures, c.attempts
          FROM belfry.cursor c
         WHERE c.group_id = g.id AND c.retry_at = belfry.blocked() AND c.partition_id > $3::bigint
         ORDER BY c.partition_id
         LIMIT $4::bigint) AS c ON true
  LEFT JOIN LATERAL (
        SELECT p.name, p.uid, p.last_seq FROM belfry.partition p WHERE p.id = c.partition_id OFFSET 0) AS p ON true
  LEFT JOIN LATERAL (
        SELECT m.seq, m.id, m.transaction_id, m.created_at
          FROM belfry.message m
         WHERE m.partition_id = c.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
         ORDER BY m.seq
         LIMIT 1) AS head ON true
  LEFT JOIN LATERAL (
        SELECT a.error, a.failed_at
          FROM belfry.attempt a
         WHERE a.partition_id = c.partition_id AND a.seq = head.seq AND a.group_id = g.id
         ORDER BY a.nth DESC
         LIMIT 1) AS last ON true
 WHERE q.name = $1::text AND q.deleted_at IS NULL
 ORDER BY c.partition_id
