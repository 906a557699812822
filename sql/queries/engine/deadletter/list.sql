-- Lists dead letters, the newest failure first. Filter, each may be NULL: $1 queue, $2 group, $3
-- partition, $4 and $5 first and last instant of failure, $6 transaction id, $7 an array of the first 200 characters
-- of the error and of its shape, $8 and $9 the failed_at and id after which the list continues. $10: rows at most. $11:
-- rows to skip. $12: LIKE patterns of queue names (NULL: any). The columns of a deleted message are
-- NULL.
SELECT l.id, l.failed_at, l.attempts, coalesce(l.error, '') AS error, l.queue_name, l.group_name, p.name AS partition_name,
       p.uid AS partition_uid, m.id AS message_id, m.transaction_id, m.payload, coalesce(m.encrypted, false) AS encrypted,
       m.producer_sub, m.created_at, m.headers
  FROM (SELECT d.id, d.failed_at, d.attempts, d.error, d.partition_id, d.seq, q.name AS queue_name, g.name AS group_name
          FROM belfry.queue q
         CROSS JOIN LATERAL (
                SELECT g.id, g.name FROM belfry.consumer_group g
                 WHERE g.queue_id = q.id AND ($2::text IS NULL OR g.name = $2::text) OFFSET 0) AS g
         CROSS JOIN LATERAL (
                SELECT d.id, d.failed_at, d.attempts, d.error, d.partition_id, d.seq
                  FROM belfry.dead_letter d
                 WHERE d.group_id = g.id
                   AND d.failed_at >= coalesce($4::timestamptz, '-infinity')
                   AND d.failed_at <= coalesce(least($5::timestamptz, $8::timestamptz), 'infinity')
                   AND ($3::text IS NULL OR d.partition_id = (
                        SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = $3::text))
                   AND ($6::text IS NULL OR (
                        SELECT m.transaction_id FROM belfry.message m
                         WHERE m.partition_id = d.partition_id AND m.seq = d.seq) = $6::text)
                   AND (($7::text[])[1] IS NULL OR left(d.error, 200) = ($7::text[])[1])
                   AND (($7::text[])[2] IS NULL OR d.shape = ($7::text[])[2])
                   AND ($8::timestamptz IS NULL OR (d.failed_at, d.id) < ($8::timestamptz, $9::bigint))
                 ORDER BY d.failed_at DESC, d.id DESC
                 LIMIT $10::bigint + $11::bigint) AS d
         WHERE q.deleted_at IS NULL AND ($1::text IS NULL OR q.name = $1::text)
           AND ($12::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($12::text[]))
         ORDER BY d.failed_at DESC, d.id DESC
        OFFSET $11::bigint
         LIMIT $10::bigint) AS l
 CROSS JOIN LATERAL (SELECT p.name, p.uid FROM belfry.partition p WHERE p.id = l.partition_id OFFSET 0) AS p
  LEFT JOIN LATERAL (
        SELECT m.id, m.transaction_id, m.payload, m.encrypted, m.producer_sub, m.created_at, m.headers
          FROM belfry.message m
         WHERE m.partition_id = l.partition_id AND m.seq = l.seq OFFSET 0) AS m ON true
 ORDER BY l.failed_at DESC, l.id DESC
