-- Searches the names of partitions of queue $1 for the part $2, in any case. It examines $5 partitions by name, from $3 on. $4: leave
-- out the partition $3 itself. $6: only names before this one (NULL: all). at is the place among the examined partitions. The last
-- row has no id: its name is the last examined one (NULL: there was none), and at counts the examined partitions.
WITH page AS MATERIALIZED (
    SELECT p.uid, p.name, row_number() OVER (ORDER BY p.name) AS at
      FROM (SELECT p.uid, p.name
              FROM belfry.partition p
             WHERE p.queue_id = $1::bigint AND p.name >= $3::text AND NOT ($4::boolean AND p.name = $3::text)
               AND ($6::text IS NULL OR p.name < $6::text) AND NOT p.closed
             ORDER BY p.name
             LIMIT $5::bigint) AS p
)
SELECT f.uid, f.name, f.at
  FROM (SELECT m.uid, m.name, m.at, 0 AS part FROM page m WHERE position(lower($2::text) IN lower(m.name)) > 0
        UNION ALL
        SELECT NULL, max(l.name), count(*), 1 FROM page l) AS f
 ORDER BY f.part, f.at
