-- Lists what rows say of waiting requests, from $1 to $2, in order. $3: names of queues as LIKE patterns
-- (NULL: any), $4 a queue (NULL: any). $5: how many rows at most.
SELECT h.at, h.instance, h.queue, h.consumer_group, h.parked
  FROM belfry.history h
 WHERE h.at >= $1::timestamptz AND h.at < $2::timestamptz AND h.parked IS NOT NULL
   AND ($3::text[] IS NULL OR h.queue COLLATE "C" LIKE ANY ($3::text[]))
   AND ($4::text IS NULL OR h.queue = $4::text)
 ORDER BY h.at DESC
 LIMIT $5::bigint
