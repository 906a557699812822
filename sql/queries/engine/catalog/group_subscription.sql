-- Sets the stored start of the groups named $1 to the instant $2, in all queues. A group that starts at
-- the first message has no stored start.
WITH held AS MATERIALIZED (
    SELECT g.id
      FROM belfry.consumer_group g
     WHERE g.name = $1::text AND g.mode <> 'all'
     ORDER BY g.id
       FOR NO KEY UPDATE
)
UPDATE belfry.consumer_group g
   SET start_at = $2::timestamptz
  FROM held h
 WHERE g.id = h.id
