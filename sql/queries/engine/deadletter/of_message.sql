-- Finds the dead letters of the message with transaction id $2 in the partition with uid $1, of group $3
-- (NULL: all groups). The ids are valid in the returned epoch.
SELECT d.id, belfry.epoch() AS epoch
  FROM belfry.partition p
  JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $2::text
  JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND ($3::text IS NULL OR g.name = $3::text)
 CROSS JOIN LATERAL (
        SELECT d.id FROM belfry.dead_letter d
         WHERE d.partition_id = p.id AND d.group_id = g.id AND d.seq = m.seq OFFSET 0) AS d
 WHERE p.uid = $1::uuid
