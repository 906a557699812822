-- Searches the partitions of a queue for a transaction id, by partition name. $1 queue, $2 transaction
-- id, $3 partitions at most. Returns the number of partitions, at most $3 + 1, and the names of the
-- first 10 partitions with such a message. It reads one index entry for each partition.
WITH known AS MATERIALIZED (
    SELECT p.id, p.name
      FROM belfry.queue q
      JOIN belfry.partition p ON p.queue_id = q.id AND NOT p.closed
     WHERE q.name = $1::text AND q.deleted_at IS NULL
     ORDER BY p.name
     LIMIT $3::bigint + 1)
SELECT (SELECT count(*) FROM known),
       ARRAY (
        SELECT p.name
          FROM (SELECT k.id, k.name FROM known k ORDER BY k.name LIMIT $3::bigint) AS p
         CROSS JOIN LATERAL (SELECT FROM belfry.message m WHERE m.partition_id = p.id AND m.transaction_id = $2::text OFFSET 0) AS m
         ORDER BY p.name
         LIMIT 10)
