-- Lists the traces named $1, the oldest first. $2 and $3: only traces after this created_at and id
-- (NULL: all). $4: traces at most. $5: traces to skip. $6: LIKE patterns of queue names (NULL: any). The
-- columns of a deleted message are NULL.
SELECT t.id, t.created_at, t.group_name, t.event_type, t.worker, t.names, t.data,
       m.id AS message_id, m.transaction_id, m.payload, coalesce(m.encrypted, false) AS encrypted, p.uid AS partition_uid,
       p.name AS partition_name, q.name AS queue_name
  FROM (SELECT n.trace_id
          FROM belfry.trace_name n
         WHERE n.name = $1::text
           AND n.created_at >= coalesce($2::timestamptz, '-infinity')
           AND ($2::timestamptz IS NULL OR (n.created_at, n.trace_id) > ($2::timestamptz, $3::uuid))
           AND ($6::text[] IS NULL OR (
                SELECT q.name COLLATE "C" FROM belfry.trace t
                  JOIN belfry.partition p ON p.id = t.partition_id
                  JOIN belfry.queue q ON q.id = p.queue_id
                 WHERE t.id = n.trace_id) LIKE ANY ($6::text[]))
         ORDER BY n.created_at, n.trace_id
        OFFSET $5::bigint
         LIMIT $4::bigint) AS n
 CROSS JOIN LATERAL (
        SELECT t.id, t.created_at, t.group_name, t.event_type, t.worker, t.names, t.data, t.partition_id, t.seq
          FROM belfry.trace t WHERE t.id = n.trace_id OFFSET 0) AS t
 CROSS JOIN LATERAL (SELECT p.uid, p.name, p.queue_id FROM belfry.partition p WHERE p.id = t.partition_id OFFSET 0) AS p
 CROSS JOIN LATERAL (SELECT q.name FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
  LEFT JOIN LATERAL (
        SELECT m.id, m.transaction_id, m.payload, m.encrypted
          FROM belfry.message m WHERE m.partition_id = t.partition_id AND m.seq = t.seq OFFSET 0) AS m ON true
 ORDER BY t.created_at, t.id
