-- One pop, as migrations 000004 and 000005 tell. $1: group id, $2: partition id or NULL,
-- $3: partitions at most, $4: messages at most, $5: lease id; NULL: autoAck.
SELECT c.kind, c.partition_id, c.group_exists, c.was_due, c.ready_at, c.attempts, c.seq, c.id, c.transaction_id, c.trace_id,
       c.payload, c.created_at, c.producer_sub, c.encrypted
  FROM belfry.claim($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::uuid) AS c
