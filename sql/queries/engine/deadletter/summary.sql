-- Counts dead letters by error, by shape of the error and by partition. It examines at most $10 dead letters, the newest first,
-- after failed_at $8 and id $9 (NULL: from the newest). Filter, each may be NULL: $1 queue, $2 group, $3
-- partition, $4 and $5 first and last instant of failure, $6 transaction id, $7 an array of the first 200 characters
-- of the error and of its shape, $11 LIKE patterns of queue names. $12: at most this many errors and this many partitions
-- are returned, those with the most dead letters. $13: ids at most.
--
-- Without a queue, the dead letters are read in the order of their ids. With a queue, each of its groups
-- is read by an index on the group, and gets an equal share of $10. If a share was too small for its
-- group, the examined rows end at the last row that was read for that group (cut). So no newer row is
-- missing. If a queue and a partition are given, and the partition has at most $10 dead letters, only
-- the dead letters of the partition are examined (target).
--
-- The first row always exists and has kind 0. It has the numbers of examined and of matching rows, the
-- end of the examined rows (NULL: all were examined) and the ids of the newest matching rows. A row of
-- kind 1 is an error of a group, and a row of kind 2 is a partition of a group.
WITH g AS MATERIALIZED (
    SELECT g.id
      FROM belfry.queue q
      JOIN belfry.consumer_group g ON g.queue_id = q.id
     WHERE q.name = $1::text AND q.deleted_at IS NULL AND ($2::text IS NULL OR g.name = $2::text)
), target AS MATERIALIZED (
    SELECT p.id
      FROM belfry.queue q
      JOIN belfry.partition p ON p.queue_id = q.id
     WHERE q.name = $1::text AND q.deleted_at IS NULL AND p.name = $3::text
       AND (SELECT count(*) FROM (
                SELECT 1 FROM belfry.dead_letter d WHERE d.partition_id = p.id LIMIT $10::bigint + 1) AS c) <= $10::bigint
), share AS MATERIALIZED (
    SELECT CASE WHEN $1::text IS NULL THEN $10::bigint ELSE greatest($10::bigint / greatest((SELECT count(*) FROM g), 1), 1) END AS n
), part AS MATERIALIZED (
    SELECT d.id, d.failed_at, d.group_id, d.partition_id, d.seq, d.error, d.shape, row_number() OVER (ORDER BY d.id DESC) AS nth
      FROM (SELECT d.id, d.failed_at, d.group_id, d.partition_id, d.seq, d.error, d.shape
              FROM belfry.dead_letter d
             WHERE $1::text IS NULL AND d.id < coalesce($9::bigint, 9223372036854775807)
             ORDER BY d.id DESC
             LIMIT $10::bigint) AS d
    UNION ALL
    SELECT d.id, d.failed_at, g.id, d.partition_id, d.seq, d.error, d.shape,
           row_number() OVER (PARTITION BY g.id ORDER BY d.failed_at DESC, d.id DESC)
      FROM g
     CROSS JOIN LATERAL (
            SELECT d.id, d.failed_at, d.partition_id, d.seq, d.error, d.shape
              FROM belfry.dead_letter d
             WHERE d.group_id = g.id AND NOT EXISTS (SELECT FROM target)
               AND d.failed_at >= coalesce($4::timestamptz, '-infinity')
               AND d.failed_at <= coalesce(least($5::timestamptz, $8::timestamptz), 'infinity')
               AND ($8::timestamptz IS NULL OR (d.failed_at, d.id) < ($8::timestamptz, $9::bigint))
             ORDER BY d.failed_at DESC, d.id DESC
             LIMIT (SELECT s.n FROM share s)) AS d
    UNION ALL
    SELECT d.id, d.failed_at, d.group_id, d.partition_id, d.seq, d.error, d.shape, 0 -- no cut
      FROM target t
     CROSS JOIN LATERAL (
            SELECT d.id, d.failed_at, d.group_id, d.partition_id, d.seq, d.error, d.shape
              FROM belfry.dead_letter d WHERE d.partition_id = t.id OFFSET 0) AS d
     WHERE d.group_id IN (SELECT g.id FROM g)
       AND ($8::timestamptz IS NULL OR (d.failed_at, d.id) < ($8::timestamptz, $9::bigint))
), cut AS MATERIALIZED (
    SELECT p.failed_at, p.id FROM part p JOIN share s ON p.nth = s.n ORDER BY p.failed_at DESC, p.id DESC LIMIT 1
), examined AS MATERIALIZED (
    SELECT p.id, p.failed_at, p.group_id, p.partition_id, p.seq, left(p.error, 200) AS error, p.shape
      FROM part p
     WHERE $1::text IS NULL OR NOT EXISTS (SELECT FROM cut c WHERE (p.failed_at, p.id) < (c.failed_at, c.id))
), names AS MATERIALIZED (
    SELECT g.id
      FROM (SELECT DISTINCT e.group_id FROM examined e) AS e
      JOIN belfry.consumer_group g ON g.id = e.group_id
      JOIN belfry.queue q ON q.id = g.queue_id AND q.deleted_at IS NULL
     WHERE ($2::text IS NULL OR g.name = $2::text) AND ($11::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($11::text[]))
), kept AS MATERIALIZED (
    SELECT e.id, e.failed_at, e.group_id, e.partition_id, e.error, e.shape
      FROM examined e
     WHERE (e.group_id IN (SELECT n.id FROM names n)) IS TRUE -- a hashed subplan; a join of two lists of unknown size is a nested loop
       AND e.failed_at >= coalesce($4::timestamptz, '-infinity') AND e.failed_at <= coalesce($5::timestamptz, 'infinity')
       AND (($7::text[])[1] IS NULL OR e.error = ($7::text[])[1]) AND (($7::text[])[2] IS NULL OR e.shape = ($7::text[])[2])
       AND CASE WHEN $3::text IS NULL THEN true
                WHEN $1::text IS NULL THEN e.partition_id IN (
                     SELECT p.id FROM (SELECT DISTINCT e.partition_id FROM examined e) AS e
                       JOIN belfry.partition p ON p.id = e.partition_id AND p.name = $3::text)
                ELSE e.partition_id = (
                     SELECT p.id FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id
                      WHERE q.name = $1::text AND q.deleted_at IS NULL AND p.name = $3::text) END
       AND ($6::text IS NULL OR (
            SELECT m.transaction_id FROM belfry.message m WHERE m.partition_id = e.partition_id AND m.seq = e.seq) = $6::text)
), errors AS MATERIALIZED (
    SELECT k.group_id, k.error, k.shape, count(*) AS n, min(k.failed_at) AS oldest, max(k.failed_at) AS newest
      FROM kept k
     GROUP BY k.group_id, k.error, k.shape
), most AS ( -- a limit keeps only the first rows of each kind; a window over all of them would sort them
    (SELECT 1 AS kind, e.group_id, NULL::bigint AS partition_id, e.error, e.shape, 1 AS texts, e.n, e.oldest, e.newest
       FROM errors e
      ORDER BY e.n DESC, e.newest DESC, e.group_id
      LIMIT $12::bigint)
    UNION ALL
    (SELECT 2, k.group_id, k.partition_id, NULL, NULL, 0, count(*) AS n, min(k.failed_at), max(k.failed_at) AS newest
       FROM kept k
      GROUP BY k.group_id, k.partition_id
      ORDER BY n DESC, newest DESC, k.group_id, k.partition_id
      LIMIT $12::bigint)
    UNION ALL
    (SELECT 3, e.group_id, NULL, min(e.error), e.shape, count(*), sum(e.n) AS n, min(e.oldest), max(e.newest) AS newest
       FROM errors e
      GROUP BY e.group_id, e.shape
      ORDER BY n DESC, newest DESC, e.group_id
      LIMIT $12::bigint)
)
SELECT 0 AS kind, (SELECT count(*) FROM kept) AS n, (SELECT count(*) FROM examined) AS examined,
       (SELECT c.failed_at FROM cut c) AS cut_at, (SELECT c.id FROM cut c) AS cut_id,
       ARRAY (SELECT k.id FROM kept k
               ORDER BY CASE WHEN $1::text IS NOT NULL THEN k.failed_at END DESC, k.id DESC LIMIT $13::bigint) AS ids,
       '' AS queue_name, '' AS group_name, '' AS error, '' AS shape, 0 AS texts, '' AS partition_name, NULL::uuid AS partition_uid,
       NULL::timestamptz AS oldest, NULL::timestamptz AS newest
UNION ALL
(SELECT r.kind, r.n, 0, NULL, NULL, NULL, q.name, g.name, coalesce(r.error, ''), coalesce(r.shape, ''), r.texts, coalesce(p.name, ''),
        p.uid, r.oldest, r.newest
   FROM most r
  CROSS JOIN LATERAL (SELECT g.name, g.queue_id FROM belfry.consumer_group g WHERE g.id = r.group_id OFFSET 0) AS g
  CROSS JOIN LATERAL (SELECT q.name FROM belfry.queue q WHERE q.id = g.queue_id OFFSET 0) AS q
   LEFT JOIN LATERAL (SELECT p.name, p.uid FROM belfry.partition p WHERE p.id = r.partition_id OFFSET 0) AS p ON true
  ORDER BY r.kind, r.n DESC, r.newest DESC, r.group_id, r.partition_id)
