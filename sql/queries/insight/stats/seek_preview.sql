-- Counts the effects of a seek of group $2 in queue $1 to the instant $3. belfry.seek_cursors describes
-- the instant. $4: only the partition of this name (NULL: all). $5: it examines at most $5 partitions by
-- name, after the name $7 (NULL: from the first one). $6: in a partition with single deleted messages it
-- counts at most $6 messages.
--
-- again counts finished and dead-lettered messages that the group receives again. skipped counts
-- unfinished messages that the group does not receive. leases counts the live leases that the seek ends.
-- more: there may be more partitions, after the name last. capped: a partition may have more than $6
-- messages.
WITH chosen AS MATERIALIZED (
    SELECT p.id, p.name
      FROM (SELECT p.id, p.name FROM belfry.partition p
             WHERE $4::text IS NULL AND p.queue_id = $1::bigint AND NOT p.closed
               AND p.name >= coalesce($7::text, '') AND p.name IS DISTINCT FROM $7::text
             ORDER BY p.name
             LIMIT $5::bigint) AS p
    UNION ALL
    SELECT p.id, p.name FROM belfry.partition p WHERE p.queue_id = $1::bigint AND p.name = $4::text AND NOT p.closed
)
SELECT count(*) AS cursors, coalesce(sum(CASE WHEN s.back THEN s.stored + s.parked ELSE 0 END), 0)::bigint AS again,
       coalesce(sum(CASE WHEN s.back THEN 0 ELSE s.stored - s.parked END), 0)::bigint AS skipped,
       count(*) FILTER (WHERE s.live) AS leases, coalesce(bool_or(s.stored >= $6::bigint AND s.holes > 0), false) AS capped,
       $4::text IS NULL AND (SELECT count(*) FROM chosen) = $5::bigint AS more,
       coalesce((SELECT c.name FROM chosen c ORDER BY c.name DESC LIMIT 1), '') AS last, statement_timestamp() AS counted_at
  FROM (SELECT c.live, p.holes, t.target <= c.committed AS back,
               CASE WHEN p.holes = 0 THEN t.high - t.low ELSE (
                    SELECT count(*) FROM (SELECT 1 FROM belfry.message m
                                           WHERE m.partition_id = k.id AND m.seq > t.low AND m.seq <= t.high
                                           LIMIT $6::bigint) AS m) END AS stored,
               coalesce(belfry.skipped_after(c.skip, 0) - CASE WHEN t.target > c.committed THEN belfry.skipped_after(c.skip, t.target) ELSE 0 END, 0) AS parked
          FROM chosen k
         CROSS JOIN LATERAL (
                SELECT p.last_seq, p.trimmed, p.holes, p.last_push_at
                  FROM belfry.partition p
                 WHERE p.id >= k.id AND p.id <= k.id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         CROSS JOIN LATERAL (
                SELECT greatest(c.committed, p.trimmed) AS committed, c.skip, coalesce(c.lease_until > statement_timestamp(), false) AS live
                  FROM belfry.cursor c
                 WHERE c.partition_id = k.id AND c.group_id >= $2::bigint AND c.group_id <= $2::bigint
                 ORDER BY c.group_id DESC
                 LIMIT 1) AS c
         CROSS JOIN LATERAL (
                SELECT w.target, least(w.target, c.committed) AS low, greatest(w.target, c.committed) AS high
                  FROM (SELECT CASE WHEN $3::timestamptz = '-infinity' THEN p.trimmed
                                    WHEN $3::timestamptz = 'infinity' OR coalesce(p.last_push_at <= $3::timestamptz, true) THEN p.last_seq
                                    ELSE belfry.seq_at(k.id, $3::timestamptz) END AS target) AS w OFFSET 0) AS t) AS s
