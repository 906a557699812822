-- Closes up to $2 open partitions of queue $1, by name from $3 on, if the deletion of the queue has
-- begun. After the commit no push can reach them. Returns their ids, and in each row the name for the
-- next page. Because of the order by name, the cost of a page does not grow with the closed partitions.
-- The statement locks in id order, and waits for the cycles of streams that have locked a partition.
WITH page AS MATERIALIZED (
    SELECT p.id, p.name
      FROM belfry.partition p
     WHERE p.queue_id = $1::bigint AND p.name >= $3::text AND NOT p.closed
       AND EXISTS (SELECT 1 FROM belfry.queue q WHERE q.id = $1::bigint AND q.deleted_at IS NOT NULL)
     ORDER BY p.name
     LIMIT $2::bigint
), held AS MATERIALIZED (
    SELECT p.id
      FROM belfry.partition p
     WHERE p.id = ANY (ARRAY (SELECT i.id FROM page i)) AND NOT p.closed
     ORDER BY p.id
       FOR UPDATE
)
UPDATE belfry.partition p
   SET closed = true
  FROM held h
 WHERE p.id = ANY (ARRAY (SELECT i.id FROM page i)) AND p.id = h.id
RETURNING p.id, (SELECT max(i.name) FROM page i) AS upto
