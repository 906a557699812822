-- One pop; see belfry.claim. $1 group id, $2 partition id or NULL, $3 partitions at most, $4
-- messages at most, $5 lease id (NULL: autoAck), $6 floor, $7 next floor, $8 verify the floor.
--
-- $9: the epoch in which $1 and $2 are valid. If the epoch differs, the group does not exist. A
-- group without a cursor in partition $2 does not exist either: the partition was removed.
SELECT c.kind, c.partition_id,
       c.group_exists AND ($2::bigint IS NULL OR (
            SELECT true FROM belfry.cursor k
             WHERE k.partition_id = $2::bigint AND k.group_id >= $1::bigint AND k.group_id <= $1::bigint
             ORDER BY k.group_id DESC
             LIMIT 1) IS NOT NULL) AS group_exists,
       c.was_due, c.ready_at, c.attempts, c.seq, c.id, c.transaction_id, c.trace_id,
       c.payload, c.created_at, c.producer_sub, c.encrypted
  FROM belfry.claim(CASE WHEN belfry.epoch() = $9::bigint THEN $1::bigint ELSE 0 END, $2::bigint, $3::bigint, $4::bigint, $5::uuid, $6::timestamptz, $7::timestamptz, $8::boolean) AS c
