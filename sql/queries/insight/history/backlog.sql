-- Lists the counted backlogs of the queues $1 for the group $2 ('': of the queue itself), from the newest one before $3 to $4, the
-- newest first. $5: LIKE patterns of queue names (NULL: any). $6: rows at most.
SELECT b.queue, b.depth, b.oldest_at, b.counted_at
  FROM unnest($1::text[]) AS k(queue)
 CROSS JOIN LATERAL (
        (SELECT h.queue, h.depth, h.oldest_at, h.counted_at
           FROM belfry.history h
          WHERE h.queue = k.queue AND h.consumer_group = $2::text AND h.depth IS NOT NULL AND h.counted_at < $3::timestamptz
          ORDER BY h.counted_at DESC
          LIMIT 1)
         UNION ALL
        (SELECT h.queue, h.depth, h.oldest_at, h.counted_at
           FROM belfry.history h
          WHERE h.queue = k.queue AND h.consumer_group = $2::text AND h.depth IS NOT NULL
            AND h.counted_at >= $3::timestamptz AND h.counted_at < $4::timestamptz)) AS b
 WHERE $5::text[] IS NULL OR k.queue COLLATE "C" LIKE ANY ($5::text[])
 ORDER BY b.counted_at DESC, b.queue
 LIMIT $6::bigint
