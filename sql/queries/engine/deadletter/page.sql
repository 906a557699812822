-- Lists a page of dead letters for processing, the oldest failure first. Filter, each may be NULL: $1
-- queue, $2 group, $3 partition, $4 and $5 first and last instant of failure, $6 transaction id, $7 the
-- array of count.sql for the error, $8 and $9 the failed_at and id after which the list continues. $10:
-- rows at most. $11 and $12: the snapshot and the instant of a count. The ids are valid in the returned
-- epoch. existed: the count includes the dead letter.
SELECT d.id, d.failed_at, belfry.epoch() AS epoch, belfry.existed(d.inserted_by, d.failed_at, $11::text::pg_snapshot, $12::timestamptz) AS existed
  FROM belfry.queue q
 CROSS JOIN LATERAL (
        SELECT g.id, g.name FROM belfry.consumer_group g
         WHERE g.queue_id = q.id AND ($2::text IS NULL OR g.name = $2::text) OFFSET 0) AS g
 CROSS JOIN LATERAL (
        SELECT d.id, d.failed_at, d.xmin AS inserted_by
          FROM belfry.dead_letter d
         WHERE d.group_id = g.id
           AND d.failed_at >= coalesce(greatest($4::timestamptz, $8::timestamptz), '-infinity')
           AND d.failed_at <= coalesce($5::timestamptz, 'infinity')
           AND ($3::text IS NULL OR d.partition_id = (
                SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = $3::text))
           AND ($6::text IS NULL OR (
                SELECT m.transaction_id FROM belfry.message m
                 WHERE m.partition_id = d.partition_id AND m.seq = d.seq) = $6::text)
           AND (($7::text[])[1] IS NULL OR left(d.error, 200) = ($7::text[])[1])
           AND (($7::text[])[2] IS NULL OR d.shape = ($7::text[])[2])
           AND ($8::timestamptz IS NULL OR (d.failed_at, d.id) > ($8::timestamptz, $9::bigint))
         ORDER BY d.failed_at, d.id
         LIMIT $10::bigint) AS d
 WHERE q.deleted_at IS NULL AND ($1::text IS NULL OR q.name = $1::text)
 ORDER BY d.failed_at, d.id
 LIMIT $10::bigint
