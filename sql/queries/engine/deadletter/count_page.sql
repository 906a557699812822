-- Counts a page of dead letters of one group, the oldest failure first. $1 group id. Filter, each may be NULL: $2 partition, $3
-- and $4 first and last instant of failure, $5 transaction id, $6 the array of count.sql for the error. $7 and $8: only those
-- after this failed_at and id, or NULL. $9: how many are examined. $10 and $11: the snapshot and the instant of the count.
-- Returns how many match and how many were examined, and the key of the last examined one.
SELECT count(*) FILTER (WHERE d.matches) AS n, count(*) AS examined, max(d.failed_at) AS failed_at,
       (array_agg(d.id ORDER BY d.failed_at DESC, d.id DESC))[1] AS id
  FROM (SELECT d.id, d.failed_at,
               belfry.existed(d.xmin, d.failed_at, $10::text::pg_snapshot, $11::timestamptz)
               AND ($2::text IS NULL OR d.partition_id = (
                    SELECT p.id FROM belfry.consumer_group g JOIN belfry.partition p ON p.queue_id = g.queue_id
                     WHERE g.id = $1::bigint AND p.name = $2::text))
               AND ($5::text IS NULL OR (
                    SELECT m.transaction_id FROM belfry.message m
                     WHERE m.partition_id = d.partition_id AND m.seq = d.seq) = $5::text)
               AND (($6::text[])[1] IS NULL OR left(d.error, 200) = ($6::text[])[1])
               AND (($6::text[])[2] IS NULL OR d.shape = ($6::text[])[2]) AS matches
          FROM belfry.dead_letter d
         WHERE d.group_id = $1::bigint
           AND d.failed_at >= coalesce(greatest($3::timestamptz, $7::timestamptz), '-infinity')
           AND d.failed_at <= coalesce($4::timestamptz, 'infinity')
           AND ($7::timestamptz IS NULL OR (d.failed_at, d.id) > ($7::timestamptz, $8::bigint))
         ORDER BY d.failed_at, d.id
         LIMIT $9::bigint) AS d
