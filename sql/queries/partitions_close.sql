-- Closes up to $2 open partitions of queue $1: after this commit nothing can be
-- pushed to them. Returns their ids.
WITH page AS MATERIALIZED (
    SELECT p.id
      FROM belfry.partition p
     WHERE p.queue_id = $1::bigint AND NOT p.closed
     ORDER BY p.id + 0 -- + 0: not by walking the primary key
     LIMIT $2::bigint
       FOR NO KEY UPDATE
)
UPDATE belfry.partition p
   SET closed = true
  FROM page
 WHERE p.id = ANY (ARRAY (SELECT i.id FROM page i)) AND p.id = page.id
RETURNING p.id
