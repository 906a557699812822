-- Lists the messages that were sent again from the message with transaction id $2 of the partition with uid
-- $1, the newest first, at most $3. partition_id is the uid of the new partition (NULL: it is gone).
SELECT r.message_id, r.queue, r.partition, r.transaction_id, r.sent_at, r.sender,
       (SELECT n.uid FROM belfry.queue q JOIN belfry.partition n ON n.queue_id = q.id
         WHERE q.name = r.queue AND q.deleted_at IS NULL AND n.name = r.partition) AS partition_uid
  FROM belfry.partition p
  JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $2::text
  JOIN belfry.resent r ON r.partition_id = p.id AND r.seq = m.seq
 WHERE p.uid = $1::uuid AND NOT p.closed
 ORDER BY r.sent_at DESC, r.message_id DESC
 LIMIT $3::bigint
