-- Deletes the message with transaction id $2 from the partition with uid $1; see belfry.delete_message.
-- The statement locks the partition and then waits for the cursors, and a SQL consumer may have locked a
-- cursor for long. So the statement gives up after $3 milliseconds.
SELECT d.group_id, d.lease_id, d.ready_in
  FROM (SELECT set_config('lock_timeout', $3::bigint::text, true) AS patience) AS l
 CROSS JOIN LATERAL belfry.delete_message(
       CASE WHEN l.patience IS NOT NULL THEN (SELECT p.id FROM belfry.partition p WHERE p.uid = $1::uuid) END, $2::text) AS d
