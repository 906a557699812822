-- Handles instants of schedules in one transaction: stores their messages in the inbox, and writes the state that follows.
-- Arrays with one element for each schedule: $1 ids, $2 handled_to and $3 changed_at as they were read, $4 the new handled_to,
-- $5 the new next_at, $6 the new due_at, $7 the last instant with a message, $8 its transaction id, $9 the error. A
-- schedule that another session has changed or locks is left out, with its messages. Arrays with one element for each
-- message: $10 the id of its schedule, $11 transaction ids, $12 payloads, $13 headers. Returns the ids of the
-- schedules that it has handled.
WITH wanted AS (
    SELECT w.id, w.read_to, w.changed_at, w.handled_to, w.next_at, w.due_at, w.last_at, w.last_transaction_id, w.error
      FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
                         $7::timestamptz[], $8::text[], $9::text[])
        AS w(id, read_to, changed_at, handled_to, next_at, due_at, last_at, last_transaction_id, error)
), locked AS MATERIALIZED (
    SELECT s.id, s.queue, s.partition, s.delay, w.handled_to, w.next_at, w.due_at, w.last_at, w.last_transaction_id, w.error
      FROM wanted w
      JOIN belfry.schedule s ON s.id = w.id
     WHERE s.handled_to = w.read_to AND s.changed_at = w.changed_at AND s.due_at IS NOT NULL AND w.handled_to >= s.handled_to
     ORDER BY s.id
       FOR NO KEY UPDATE OF s SKIP LOCKED
), stored AS (
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, headers, visible_at)
    SELECT l.queue, l.partition, m.payload::json, m.transaction_id, m.headers::json,
           CASE WHEN l.delay > interval '0' THEN clock_timestamp() + l.delay END
      FROM unnest($10::bigint[], $11::text[], $12::text[], $13::text[]) WITH ORDINALITY AS m(id, transaction_id, payload, headers, nth)
      JOIN locked l ON l.id = m.id
     ORDER BY m.nth
    RETURNING id, transaction_id
)
UPDATE belfry.schedule s
   SET handled_to = l.handled_to, next_at = l.next_at, due_at = l.due_at, error = l.error, last_at = coalesce(l.last_at, s.last_at),
       last_transaction_id = coalesce(l.last_transaction_id, s.last_transaction_id), last_inbox_id = coalesce(i.id, s.last_inbox_id)
  FROM locked l
  LEFT JOIN stored i ON i.transaction_id = l.last_transaction_id
 WHERE s.id = l.id
RETURNING s.id
