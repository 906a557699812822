-- Waits until another session releases a due cursor of group $1 (in partition $2 if given). A lost
-- race does not mean that nothing is due. $3: no cursor is due before this instant. Waits at most
-- $4 milliseconds, because a SQL consumer holds the cursor until its transaction ends.
--
-- The cursor is selected first and then locked by its key, so the statement locks one row and no
-- other. A scan with a lock would keep the lock of a row that changed and no longer matches.
-- Holding one lock while waiting for the next would deadlock. The commit does not wait for the
-- disk, because the lock is all it needs.
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
