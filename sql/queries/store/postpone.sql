-- Makes the partition $2 ready for the group $1 in $3 seconds, if it is due: a message in it cannot be
-- read. An ended lease is dropped.
UPDATE belfry.cursor c
   SET ready_at = statement_timestamp() + make_interval(secs => $3::bigint),
       retry_at = statement_timestamp() + make_interval(secs => $3::bigint),
       lease_id = NULL, lease_until = NULL, lease_end = NULL
 WHERE c.partition_id = $2::bigint AND c.group_id >= $1::bigint AND c.group_id <= $1::bigint
   AND coalesce(c.ready_at <= statement_timestamp(), false) -- coalesce: not by the index cursor_ready
RETURNING c.group_id, c.partition_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in, c.ready_at
