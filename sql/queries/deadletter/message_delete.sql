-- Deletes the message with transaction id $2 from the partition with wire id $1, as migration
-- 000008 tells. It holds the partition while it waits for its cursors, so it gives up
-- after $3 milliseconds: a consumer in SQL holds one for as long as its transaction
-- lasts.
SELECT d.group_id, d.lease_id, d.ready_in
  FROM (SELECT set_config('lock_timeout', $3::bigint::text, true) AS patience) AS l
 CROSS JOIN LATERAL belfry.delete_message(
       CASE WHEN l.patience IS NOT NULL THEN (SELECT p.id FROM belfry.partition p WHERE p.uid = $1::uuid) END, $2::text) AS d
