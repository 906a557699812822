-- Counts the messages of queues by state, a page of partitions for each queue. By array: $1 queue ids,
-- $2 the partition name after which to continue (NULL: from the start). $3: partitions of each queue at
-- most. $4: also return lags and ages. Both arrays have an element for each partition with unfinished
-- messages: the number of these messages, and the age of the oldest in seconds. Returns one row for each
-- queue, with its position from 1.
SELECT k.ord, n.partitions, n.last_name, n.total, n.pending, n.processing, n.completed, n.dead, n.lags, n.ages
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS k(queue_id, after, ord)
 CROSS JOIN LATERAL (
        SELECT count(*) AS partitions, max(p.name) AS last_name,
               coalesce(sum(s.total), 0)::bigint AS total, coalesce(sum(s.pending), 0)::bigint AS pending,
               coalesce(sum(s.processing), 0)::bigint AS processing, coalesce(sum(s.completed), 0)::bigint AS completed,
               coalesce(sum(s.dead), 0)::bigint AS dead,
               array_agg(s.pending + s.processing) FILTER (WHERE head.age IS NOT NULL) AS lags,
               array_agg(head.age) FILTER (WHERE head.age IS NOT NULL) AS ages
          FROM (SELECT p.id, p.name, p.last_seq, p.trimmed, p.holes
                  FROM belfry.partition p
                 WHERE p.queue_id = k.queue_id AND p.name >= coalesce(k.after, '') AND p.name IS DISTINCT FROM k.after
                   AND NOT p.closed
                 ORDER BY p.name
                 LIMIT $3::bigint) AS p
         CROSS JOIN LATERAL belfry.partition_counts(p.id, p.last_seq, p.trimmed, p.holes) AS s
          LEFT JOIN LATERAL (
                SELECT extract(epoch FROM statement_timestamp() - m.created_at)::float8 AS age
                  FROM belfry.message m
                 WHERE $4::boolean AND s.pending + s.processing > 0 AND m.partition_id = p.id AND m.seq > s.done
                 ORDER BY m.seq
                 LIMIT 1) AS head ON true) AS n
