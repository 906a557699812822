-- Moves the stored subscriptions of group $1 to the instant $2, in all queues. A group that started
-- at the first message has none.
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
