-- Finds rejected rows of the inbox to retry or to discard. It examines the first $5 rows after id $1 and
-- up to id $2. Filter, each may be NULL: $3 queue, $4 code. Returns one row: the last examined id (NULL:
-- no row was examined), and the ids of the rows that match.
SELECT max(e.id) AS last_id,
       coalesce(array_agg(e.id ORDER BY e.id) FILTER (
           WHERE ($3::text IS NULL OR e.queue = $3::text) AND ($4::text IS NULL OR e.code = $4::text)), '{}') AS ids
  FROM (SELECT r.id, r.queue, r.code
          FROM belfry.inbox_rejected r
         WHERE r.id > $1::bigint AND r.id <= $2::bigint
         ORDER BY r.id
         LIMIT $5::bigint) AS e
