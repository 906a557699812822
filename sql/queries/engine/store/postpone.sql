-- Postpones the partition $2 for the group $1 by $3 seconds, if it is due, because a message of the
-- partition cannot be read or decrypted. Redriven messages wait as well. An ended lease is removed.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, c.group_id, c.redrives
      FROM belfry.cursor c
     WHERE c.partition_id = $2::bigint AND c.group_id >= $1::bigint AND c.group_id <= $1::bigint
       AND coalesce(c.ready_at <= statement_timestamp(), false) -- coalesce: avoids the index cursor_ready
       FOR NO KEY UPDATE
), redriven AS (
    UPDATE belfry.redrive r
       SET retry_at = statement_timestamp() + make_interval(secs => $3::bigint)
      FROM held h
     WHERE h.redrives > 0 AND r.partition_id = $2::bigint AND r.group_id = $1::bigint
       AND r.seq = (SELECT n.seq FROM belfry.redrive n
                     WHERE n.partition_id = $2::bigint AND n.group_id = $1::bigint ORDER BY n.seq LIMIT 1)
)
UPDATE belfry.cursor c
   SET ready_at = statement_timestamp() + make_interval(secs => $3::bigint),
       retry_at = CASE WHEN c.retry_at = belfry.blocked() THEN c.retry_at ELSE statement_timestamp() + make_interval(secs => $3::bigint) END,
       lease_id = NULL, lease_until = NULL, lease_end = NULL
  FROM held h
 WHERE c.partition_id = $2::bigint AND c.group_id >= $1::bigint AND c.group_id <= $1::bigint
   AND c.partition_id = h.partition_id AND c.group_id = h.group_id
RETURNING c.group_id, c.partition_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in, c.ready_at
