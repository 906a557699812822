-- Lists rejected rows of the inbox, the newest first. It examines $5 rows before id $1 (NULL: the newest
-- rows), and returns the first $6 rows that match. Filter, each may be NULL: $2 queue, $3 code, $4 LIKE
-- patterns of queue names. Each returned row has the number of examined rows and the id of the last
-- examined row. If no row matches, one row is returned, and its other columns are NULL.
--
-- A name that is not UTF-8 is NULL. excerpt is the beginning of the payload. excerpt is NULL if it is
-- not UTF-8, or if the stored payload is larger than 1 MiB.
WITH examined AS MATERIALIZED (
    SELECT r.id, r.queue, r.code
      FROM belfry.inbox_rejected r
     WHERE r.id < coalesce($1::bigint, 9223372036854775807)
     ORDER BY r.id DESC
     LIMIT $5::bigint
), found AS MATERIALIZED (
    SELECT e.id
      FROM examined e
     WHERE ($2::text IS NULL OR e.queue = $2::text) AND ($3::text IS NULL OR e.code = $3::text)
       AND ($4::text[] IS NULL OR e.queue COLLATE "C" LIKE ANY ($4::text[]))
     ORDER BY e.id DESC
     LIMIT $6::bigint
)
SELECT s.examined, s.last_id, f.id,
       CASE WHEN belfry.is_utf8(r.queue) THEN r.queue END AS queue, CASE WHEN belfry.is_utf8(r.partition) THEN r.partition END AS partition,
       CASE WHEN belfry.is_utf8(r.transaction_id) THEN r.transaction_id END AS transaction_id, r.trace_id,
       CASE WHEN isfinite(r.visible_at) THEN r.visible_at END AS visible_at, r.inserted_at, r.rejected_at, r.code, r.reason,
       pg_column_size(r.payload)::bigint AS stored_bytes, CASE WHEN belfry.is_utf8(x.excerpt) THEN x.excerpt END AS excerpt
  FROM (SELECT count(*) AS examined, min(e.id) AS last_id FROM examined e) AS s
  LEFT JOIN found f ON true
  LEFT JOIN LATERAL (
        SELECT r.queue, r.partition, r.transaction_id, r.trace_id, r.visible_at, r.inserted_at, r.rejected_at, r.code, r.reason, r.payload
          FROM belfry.inbox_rejected r WHERE r.id = f.id OFFSET 0) AS r ON true
  LEFT JOIN LATERAL (
        SELECT left(r.payload::text, 1000) AS excerpt WHERE pg_column_size(r.payload) <= 1048576 OFFSET 0) AS x ON true
 ORDER BY f.id DESC
