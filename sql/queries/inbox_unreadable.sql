-- Finds those of the first $1 rows of the inbox that cannot be handed out, since they are not
-- readable as UTF-8. A payload of more than $2 bytes is not handed out anyway.
SELECT f.id
  FROM (SELECT i.id FROM belfry.inbox i ORDER BY i.id LIMIT $1::bigint) AS f
 CROSS JOIN LATERAL (
       SELECT i.queue, i.partition, i.transaction_id,
              CASE WHEN octet_length(i.payload::text) <= $2::bigint THEN i.payload::text END AS payload
         FROM belfry.inbox i WHERE i.id = f.id OFFSET 0) AS i
 WHERE NOT (belfry.readable(i.queue) AND belfry.readable(i.partition) AND belfry.readable(i.transaction_id) AND belfry.readable(i.payload))
 ORDER BY f.id
