-- Lists the partitions of queue $1 (id) with the last stored message of each.
SELECT p.id, p.uid, p.last_seq, p.last_push_at, m.id AS message_id
  FROM belfry.partition p
  LEFT JOIN belfry.message m ON m.partition_id = p.id AND m.seq = p.last_seq
 WHERE p.queue_id = $1::bigint AND NOT p.closed
