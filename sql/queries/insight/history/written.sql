-- Lists the newest counted backlog of each queue and group that an instance has written in a row from $1 on.
SELECT DISTINCT ON (h.queue, h.consumer_group) h.queue, h.consumer_group, h.depth, h.oldest_at, h.counted_at
  FROM belfry.history h
 WHERE h.depth IS NOT NULL AND h.at >= $1::timestamptz
 ORDER BY h.queue, h.consumer_group, h.counted_at DESC
