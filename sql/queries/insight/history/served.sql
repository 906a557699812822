-- Lists the instances that deliver to groups or hold their waiting requests. $1: queues, $2: the group of each queue. delivered
-- counts the messages of the minute $3, and since_delivered also those after it. parked is the last written number of waiting
-- requests since $4. $5: rows that may not be written yet, as in parked.sql.
SELECT h.queue, h.consumer_group, h.hostname, h.pid, coalesce(sum(h.pop_messages) FILTER (WHERE h.at = $3::timestamptz), 0)::bigint AS delivered,
       coalesce(sum(h.pop_messages) FILTER (WHERE h.at >= $3::timestamptz), 0)::bigint AS since_delivered,
       coalesce((array_agg(h.parked ORDER BY h.at DESC) FILTER (WHERE h.parked IS NOT NULL))[1], 0)::bigint AS parked
  FROM (
  SELECT w.at, w.queue, w.consumer_group, w.pop_messages, w.parked, i.hostname, i.pid
    FROM belfry.history w
    JOIN belfry.history_instance i ON i.at = w.at AND i.minutes = w.minutes AND i.instance = w.instance
   UNION ALL
  SELECT o.at, o.queue, o.consumer_group, o.pop_messages, o.parked, o.hostname, o.pid
    FROM json_to_recordset($5::json) AS o(at timestamptz, minutes smallint, instance uuid, queue text, consumer_group text, pop_messages bigint,
         parked bigint, hostname text, pid bigint)
   WHERE NOT EXISTS (SELECT 1 FROM belfry.history_instance k WHERE k.at = o.at AND k.minutes = o.minutes AND k.instance = o.instance)) h
 WHERE h.at >= $4::timestamptz
   AND (h.queue, h.consumer_group) IN (SELECT l.queue, l.name FROM unnest($1::text[], $2::text[]) AS l(queue, name))
 GROUP BY h.queue, h.consumer_group, h.hostname, h.pid
 ORDER BY h.queue, h.consumer_group, h.hostname, h.pid
