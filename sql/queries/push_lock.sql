-- Locks the partitions of a push, in id order, until its commit: whoever holds
-- them gives out the next seq (I2). $1: distinct partition ids, $2: whether the
-- payloads for each are sealed. Raises BF001 when what the caller remembers of
-- one is no longer true: it is gone or closing, or its queue seals or does not.
SELECT CASE WHEN count(*) = cardinality($1::bigint[]) THEN count(*) ELSE belfry.raise_partition_gone() END AS locked
  FROM (SELECT p.id
          FROM unnest($1::bigint[], $2::boolean[]) AS k(id, sealed)
          JOIN belfry.partition p ON p.id = k.id
         WHERE p.id = ANY ($1::bigint[]) AND NOT p.closed
           AND (SELECT q.encryption_enabled FROM belfry.queue q WHERE q.id = p.queue_id) = k.sealed
         ORDER BY p.id
           FOR NO KEY UPDATE OF p) AS held
