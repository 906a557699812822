-- Adds up the histograms from $1 to $2 by queue, in intervals of $3 seconds (0: one interval). $4: LIKE
-- patterns of queue names (NULL: any), $5 queues, $6 a group (NULL: any). Returns one row for each
-- interval, queue and bucket of the histogram, in this order. $7: rows that may not be written yet, as
-- in series.sql.
SELECT CASE WHEN $3::bigint > 0 THEN date_bin(make_interval(secs => $3::bigint), h.at, 'epoch') ELSE $1::timestamptz END AS at, h.queue,
       e.element >> 40 AS bucket, sum(e.element & 1099511627775)::bigint AS count
  FROM (
  SELECT w.at, w.queue, w.consumer_group, w.latency
    FROM belfry.history w
   UNION ALL
  SELECT o.at, o.queue, o.consumer_group, o.latency
    FROM json_populate_recordset(NULL::belfry.history, $7::json) o
   WHERE NOT EXISTS (SELECT 1 FROM belfry.history_instance i WHERE i.at = o.at AND i.minutes = o.minutes AND i.instance = o.instance)) h
 CROSS JOIN LATERAL unnest(h.latency) AS e(element)
 WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz
   AND ($4::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($4::text[]))
   AND ($5::text[] IS NULL OR h.queue IN (SELECT unnest($5::text[])))
   AND ($6::text IS NULL OR h.consumer_group = $6::text)
 GROUP BY 1, 2, 3
 ORDER BY 1, 2, 3
