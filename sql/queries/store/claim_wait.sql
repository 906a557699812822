-- Waits until the rival that holds a due cursor of group $1 (of partition $2
-- when given) has finished: losing a race is not emptiness (I8). The cursor is
-- chosen first and locked by its key, so that this locks one row and no other:
-- LockRows keeps the lock of a row that changed and is passed over, and who
-- holds one while waiting for the next is in a deadlock sooner or later. The
-- lock is all it wants, so its commit does not wait for the disk. $3: nothing is due
-- before. It waits for $4 milliseconds at most: a consumer in SQL holds the cursor
-- for as long as its transaction lasts.
WITH any_due AS MATERIALIZED (
    SELECT c.partition_id
      FROM belfry.cursor c
     WHERE $2::bigint IS NULL AND c.group_id = $1::bigint
       AND c.ready_at >= coalesce($3::timestamptz, '-infinity') AND c.ready_at <= statement_timestamp()
     ORDER BY c.ready_at
     LIMIT 1
)
SELECT c.partition_id, due.patience, set_config('synchronous_commit', 'off', true)
  FROM (SELECT coalesce($2::bigint, (SELECT a.partition_id FROM any_due a)) AS partition_id,
               set_config('lock_timeout', $4::bigint::text, true) AS patience) AS due
 CROSS JOIN LATERAL (
        SELECT c.partition_id FROM belfry.cursor c
         WHERE c.partition_id = due.partition_id AND c.group_id >= $1::bigint AND c.group_id <= $1::bigint
         ORDER BY c.group_id DESC
         LIMIT 1
           FOR NO KEY UPDATE) AS c
