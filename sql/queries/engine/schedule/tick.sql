-- Handles instants of schedules in one transaction: stores their messages in the inbox, and writes the state that follows.
-- Arrays with one element for each message, and for each schedule without a message: $1 ids of the schedules, $2 handled_to and
-- $3 changed_at as they were read. $4 to $6 are the new handled_to, next_at and due_at. $7 is the last instant with a message,
-- $8 its transaction id, and $9 the error. $10 to $12 are the transaction ids, payloads and headers of the messages. A schedule
-- that another session has changed or locks is left out, with its messages. Returns the ids of the schedules that it has
-- handled. The elements are not in two sets of arrays, because Postgres would join them by a loop over all pairs.
WITH locked AS MATERIALIZED (
    SELECT s.id, s.queue, s.partition, s.delay, w.handled_to, w.next_at, w.due_at, w.last_at, w.last_transaction_id, w.error,
           w.transaction_id, w.payload, w.headers
      FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
                  $7::timestamptz[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) WITH ORDINALITY
        AS w(id, read_to, changed_at, handled_to, next_at, due_at, last_at, last_transaction_id, error, transaction_id, payload, headers, nth)
     CROSS JOIN LATERAL (
           SELECT s.id, s.queue, s.partition, s.delay FROM belfry.schedule s
            WHERE s.id = w.id AND s.handled_to = w.read_to AND s.changed_at = w.changed_at AND s.due_at IS NOT NULL AND w.handled_to >= s.handled_to
              FOR NO KEY UPDATE SKIP LOCKED) AS s
     ORDER BY w.nth
), numbered AS MATERIALIZED (
    SELECT l.id, l.queue, l.partition, l.delay, l.handled_to, l.next_at, l.due_at, l.last_at, l.last_transaction_id, l.error,
           l.transaction_id, l.payload, l.headers, CASE WHEN l.transaction_id IS NOT NULL THEN nextval('belfry.inbox_id_seq') END AS inbox_id
      FROM locked l
), stored AS (
    INSERT INTO belfry.inbox (id, queue, partition, payload, transaction_id, headers, visible_at) OVERRIDING SYSTEM VALUE
    SELECT n.inbox_id, n.queue, n.partition, n.payload::json, n.transaction_id, n.headers::json,
           CASE WHEN n.delay > interval '0' THEN clock_timestamp() + n.delay END
      FROM numbered n
     WHERE n.inbox_id IS NOT NULL
)
UPDATE belfry.schedule s
   SET handled_to = n.handled_to, next_at = n.next_at, due_at = n.due_at, error = n.error, last_at = coalesce(n.last_at, s.last_at),
       last_transaction_id = coalesce(n.last_transaction_id, s.last_transaction_id), last_inbox_id = coalesce(n.inbox_id, s.last_inbox_id)
  FROM numbered n
 WHERE s.id = n.id AND n.transaction_id IS NOT DISTINCT FROM n.last_transaction_id
RETURNING s.id
