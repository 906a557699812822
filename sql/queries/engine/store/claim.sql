-- Claims messages for one pop; see belfry.claim. $1 group id, $2 partition id or NULL, $3 partitions at
-- most, $4 messages at most, $5 lease id (NULL: autoAck), $6 floor, $7 next floor, $8 p_look (return the
-- floors), $10 bytes at most. $11: the transaction makes no other claim.
--
-- $9: the epoch in which $1 and $2 are valid. If the epoch differs, the group does not exist.
SELECT c.item, c.partition_id, c.outcome, c.ready_at, c.needs_wake, c.expired, c.given_up, c.skipped, c.undo,
       c.seq, c.id, c.transaction_id, c.trace_id, c.payload, c.created_at, c.producer_sub, c.headers, c.encrypted, c.attempt,
       c.group_exists, c.was_due, c.next_ready_at, c.database_now, c.due_floor, c.next_floor
  FROM belfry.claim(CASE WHEN belfry.epoch() = $9::bigint THEN $1::bigint ELSE 0 END, $2::bigint, $3::bigint, $4::bigint, $5::uuid,
                    $6::timestamptz, $7::timestamptz, $8::boolean, $10::bigint, $11::boolean) AS c
