-- Adds up the histograms from $1 to $2 by queue, in buckets of $3 seconds (0: one for all of the time). $4:
-- names of queues as LIKE patterns (NULL: any), $5 a queue, $6 a group (NULL: any). One row for each bucket
-- of time, queue and bucket of the histogram, in order.
SELECT CASE WHEN $3::bigint > 0 THEN date_bin(make_interval(secs => $3::bigint), h.at, 'epoch') ELSE $1::timestamptz END AS at, h.queue,
       e.element >> 40 AS bucket, sum(e.element & 1099511627775)::bigint AS count
  FROM belfry.history h
 CROSS JOIN LATERAL unnest(h.latency) AS e(element)
 WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz
   AND ($4::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($4::text[]))
   AND ($5::text IS NULL OR h.queue = $5::text)
   AND ($6::text IS NULL OR h.consumer_group = $6::text)
 GROUP BY 1, 2, 3
 ORDER BY 1, 2, 3
