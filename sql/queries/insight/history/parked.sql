-- Lists the numbers of waiting requests, from $1 to $2, the newest first. $3: LIKE patterns of queue
-- names (NULL: any), $4 queues, $5 a group (NULL: any). $6: rows at most. $7: rows of queues that may
-- not be written yet, as in series.sql, with the host and the process. A row may be listed twice.
SELECT h.at, h.minutes, h.instance, h.queue, h.consumer_group, h.parked, h.hostname, h.pid
  FROM (
  SELECT w.at, w.minutes, w.instance, w.queue, w.consumer_group, w.parked, i.hostname, i.pid
    FROM belfry.history w
    JOIN belfry.history_instance i ON i.at = w.at AND i.minutes = w.minutes AND i.instance = w.instance
   UNION ALL
  SELECT o.at, o.minutes, o.instance, o.queue, o.consumer_group, o.parked, o.hostname, o.pid
    FROM json_to_recordset($7::json) AS o(at timestamptz, minutes smallint, instance uuid, queue text, consumer_group text, parked bigint,
         hostname text, pid bigint)) h
 WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz AND h.parked IS NOT NULL
   AND ($3::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($3::text[]))
   AND ($4::text[] IS NULL OR h.queue IN (SELECT unnest($4::text[])))
   AND ($5::text IS NULL OR h.consumer_group = $5::text)
 ORDER BY h.at DESC
 LIMIT $6::bigint
