-- Decides ($4) about the message at which the partition $2 of the queue $1 is blocked for the group $3; see
-- belfry.unblock_partition.
SELECT u.known, u.unblocked, u.partition_id, u.message_id, u.transaction_id
  FROM belfry.unblock_partition($1::text, $2::text, $3::text, $4::text, false) AS u
