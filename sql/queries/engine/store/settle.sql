-- Moves a cursor to the end of its log if only deleted and dead-lettered messages are left.
-- settle_lock.sql has locked the cursor, and this snapshot is newer than the lock. A wake must follow
-- the commit: it also sets ready_at to the end of the retry delay of redriven messages. $1 partition id,
-- $2 group id.
UPDATE belfry.cursor c
   SET committed = p.last_seq, skip = NULL, attempts = 0, failures = 0, retry_at = NULL, ready_at = NULL,
       lease_id = NULL, lease_until = NULL, lease_end = NULL
  FROM belfry.partition p
 WHERE c.partition_id = $1::bigint AND c.group_id = $2::bigint AND p.id = $1::bigint
   AND (c.lease_until IS NULL OR c.lease_until <= statement_timestamp())
   AND NOT EXISTS (
        SELECT 1 FROM belfry.message m
         WHERE m.partition_id = $1::bigint AND m.seq > c.committed
           AND (c.skip IS NULL OR NOT m.seq <@ c.skip))
RETURNING c.committed
