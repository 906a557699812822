-- Adds up the histograms from $1 to $2 by queue. $3: names of queues as LIKE patterns (NULL: any), $4 a
-- queue, $5 a group (NULL: any). One row for each queue and bucket.
SELECT h.queue, e.element >> 40 AS bucket, sum(e.element & 1099511627775)::bigint AS count
  FROM belfry.history h
 CROSS JOIN LATERAL unnest(h.latency) AS e(element)
 WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz
   AND ($3::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($3::text[]))
   AND ($4::text IS NULL OR h.queue = $4::text)
   AND ($5::text IS NULL OR h.consumer_group = $5::text)
 GROUP BY 1, 2
 ORDER BY 1, 2
