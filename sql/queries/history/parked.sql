-- Lists what rows say of waiting requests, from $1 to $2, the newest first. $3: names of queues as LIKE
-- patterns (NULL: any), $4 a queue, $5 a group (NULL: any). $6: how
-- many rows at most.
SELECT h.at, h.minutes, h.instance, h.queue, h.consumer_group, h.parked, i.hostname, i.pid
  FROM belfry.history h
  JOIN belfry.history_instance i ON i.at = h.at AND i.minutes = h.minutes AND i.instance = h.instance
 WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz AND h.parked IS NOT NULL
   AND ($3::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($3::text[]))
   AND ($4::text IS NULL OR h.queue = $4::text)
   AND ($5::text IS NULL OR h.consumer_group = $5::text)
 ORDER BY h.at DESC
 LIMIT $6::bigint
