-- Counts the partitions of queue $1 and their stored messages, for at most the first $2 partitions by
-- name. It reads no message.
SELECT count(*) AS partitions, coalesce(sum(p.last_seq - p.trimmed - p.holes), 0)::bigint AS stored
  FROM (SELECT p.last_seq, p.trimmed, p.holes
          FROM belfry.partition p
         WHERE p.queue_id = $1::bigint AND NOT p.closed
         ORDER BY p.name
         LIMIT $2::bigint) AS p
