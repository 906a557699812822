-- Moves the stored subscriptions of group $1, in all queues, to the instant $2.
-- Groups that started at the first message have none stored.
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
