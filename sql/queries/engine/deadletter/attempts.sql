-- Lists the failed attempts to deliver the message with transaction id $2 of the partition with uid $1, to
-- group $3 (NULL: all groups), the newest first, at most $4.
SELECT g.name, a.nth, a.delivered_at, a.failed_at, a.result, a.error, a.consumer, a.instance
  FROM belfry.partition p
  JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $2::text
  JOIN belfry.attempt a ON a.partition_id = p.id AND a.seq = m.seq
  JOIN belfry.consumer_group g ON g.id = a.group_id AND ($3::text IS NULL OR g.name = $3::text)
 WHERE p.uid = $1::uuid AND NOT p.closed
 ORDER BY a.failed_at DESC, g.name COLLATE "C", a.nth DESC
 LIMIT $4::bigint
