-- Stores a message of the schedule $1 now, with the transaction id $3, the payload $4 and the headers $5. Returns no row if
-- the schedule does not exist, or was changed after the instant $2.
WITH locked AS MATERIALIZED (
    SELECT s.id, s.queue, s.partition, s.delay FROM belfry.schedule s
     WHERE s.name = $1::text AND s.changed_at = $2::timestamptz FOR NO KEY UPDATE
), stored AS (
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, headers, visible_at)
    SELECT l.queue, l.partition, $4::text::json, $3::text, $5::text::json, CASE WHEN l.delay > interval '0' THEN clock_timestamp() + l.delay END
      FROM locked l
    RETURNING id
)
UPDATE belfry.schedule s SET last_transaction_id = $3::text, last_inbox_id = i.id
  FROM locked l, stored i
 WHERE s.id = l.id
RETURNING s.id
