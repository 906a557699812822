-- Finds partitions without messages, without state of streams, and without a push for $3 days, among $2
-- partitions above id $1. Returns the last examined id, and the found ids. No row: no partition is left.
SELECT max(s.id) AS upto, coalesce(array_agg(s.id) FILTER (WHERE s.idle), '{}') AS partition_ids
  FROM (SELECT p.id,
               NOT p.closed AND p.last_seq - p.trimmed - p.holes <= 0
               AND coalesce(p.last_push_at, p.created_at) <= statement_timestamp() - make_interval(days => $3::integer)
               AND NOT EXISTS (SELECT 1 FROM belfry.stream_state t WHERE t.partition_id = p.id) AS idle
          FROM belfry.partition p
         WHERE p.id > $1::bigint
         ORDER BY p.id
         LIMIT $2::bigint) AS s
HAVING count(*) > 0
