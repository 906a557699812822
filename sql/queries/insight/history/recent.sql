-- Sums the counts of each queue since $1: pushed and delivered messages in the minute $2, and failed acknowledgments in the whole
-- time. $3: rows that may not be written yet, as in series.sql.
SELECT h.queue, coalesce(sum(h.push_messages) FILTER (WHERE h.at = $2::timestamptz), 0)::bigint AS pushed,
       coalesce(sum(h.pop_messages) FILTER (WHERE h.at = $2::timestamptz), 0)::bigint AS delivered, sum(h.ack_failed)::bigint AS failed
  FROM (
  SELECT w.at, w.queue, w.push_messages, w.pop_messages, w.ack_failed FROM belfry.history w
   UNION ALL
  SELECT o.at, o.queue, o.push_messages, o.pop_messages, o.ack_failed
    FROM json_populate_recordset(NULL::belfry.history, $3::json) o
   WHERE NOT EXISTS (SELECT 1 FROM belfry.history_instance i WHERE i.at = o.at AND i.minutes = o.minutes AND i.instance = o.instance)) h
 WHERE h.at >= $1::timestamptz
 GROUP BY h.queue
