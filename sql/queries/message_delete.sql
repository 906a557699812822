-- Deletes the message with transaction id $2 from partition $1, as migration
-- 000008 tells.
SELECT d.group_id, d.lease_id, d.ready_in
  FROM belfry.delete_message($1::bigint, $2::text) AS d
