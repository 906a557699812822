-- Waits until another session releases a due cursor of group $1 (in partition $2 if it is not NULL). A
-- claim that found all due cursors locked uses it. $3: no cursor is due before this instant. Waits at
-- most $4 milliseconds, because a SQL consumer holds the cursor until its transaction ends.
--
-- The statement selects a cursor first and then locks it by its key, so it locks only one row. A scan
-- that locks would also keep the lock of a row that changed and no longer matches. Then it would hold
-- one lock and wait for another, which can deadlock. The commit does not wait for the disk, because the
-- transaction changes no data.
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
