-- Lists at most $3 partitions of queue $1 by name, after the name $2 (NULL: from the start). The
-- columns: the messages by state, the instants of the oldest and the newest message, the number of
-- messages that all groups together consumed, the last push or consumption, the expired messages,
-- whether the partition is paused, and its tenant.
SELECT p.uid, p.name, p.created_at, s.total, s.pending, s.processing, s.completed, s.dead, oldest.created_at AS oldest_at,
       newest.created_at AS newest_at, c.consumed, greatest(p.last_push_at, c.consumed_at) AS active_at,
       c.expired, p.paused, (SELECT t.name FROM belfry.tenant t WHERE t.id = p.tenant_id) AS tenant
  FROM (SELECT p.id, p.uid, p.name, p.created_at, p.last_seq, p.trimmed, p.holes, p.last_push_at, p.paused, p.tenant_id
          FROM belfry.partition p
         WHERE p.queue_id = $1::bigint AND p.name >= coalesce($2::text, '') AND p.name IS DISTINCT FROM $2::text
           AND NOT p.closed
         ORDER BY p.name
         LIMIT $3::bigint) AS p
 CROSS JOIN LATERAL belfry.partition_counts(p.id, p.last_seq, p.trimmed, p.holes) AS s
 CROSS JOIN LATERAL (
        SELECT coalesce(sum(c.consumed), 0)::bigint AS consumed, max(c.consumed_at) AS consumed_at,
               coalesce(sum(c.expired), 0)::bigint AS expired
          FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS c
  LEFT JOIN LATERAL (
        SELECT m.created_at FROM belfry.message m
         WHERE m.partition_id = p.id AND m.seq > p.trimmed ORDER BY m.seq LIMIT 1) AS oldest ON true
  LEFT JOIN LATERAL (
        SELECT m.created_at FROM belfry.message m
         WHERE m.partition_id = p.id AND m.seq > p.trimmed ORDER BY m.seq DESC LIMIT 1) AS newest ON true
 ORDER BY p.name
