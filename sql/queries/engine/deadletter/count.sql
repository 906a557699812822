-- Counts dead letters. Filter, each may be NULL: $1 queue, $2 group, $3 partition, $4 and $5 first and
-- last instant of failure, $6 transaction id, $7 an array of the first 200
-- characters of the error and of its shape, $8 LIKE patterns of queue names.
SELECT coalesce(sum(d.n), 0)::bigint AS n
  FROM belfry.queue q
 CROSS JOIN LATERAL (
        SELECT g.id, g.name FROM belfry.consumer_group g
         WHERE g.queue_id = q.id AND ($2::text IS NULL OR g.name = $2::text) OFFSET 0) AS g
 CROSS JOIN LATERAL (
        SELECT count(*) AS n
          FROM belfry.dead_letter d
         WHERE d.group_id = g.id
           AND d.failed_at >= coalesce($4::timestamptz, '-infinity')
           AND d.failed_at <= coalesce($5::timestamptz, 'infinity')
           AND ($3::text IS NULL OR d.partition_id = (
                SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = $3::text))
           AND ($6::text IS NULL OR (
                SELECT m.transaction_id FROM belfry.message m
                 WHERE m.partition_id = d.partition_id AND m.seq = d.seq) = $6::text)
           AND (($7::text[])[1] IS NULL OR left(d.error, 200) = ($7::text[])[1])
           AND (($7::text[])[2] IS NULL OR d.shape = ($7::text[])[2])
       ) AS d
 WHERE q.deleted_at IS NULL AND ($1::text IS NULL OR q.name = $1::text)
   AND ($8::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($8::text[]))
