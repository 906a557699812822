-- Reports for $2 rows of the inbox after id $1 whether each row can be converted to UTF-8. A payload of
-- more than $3 bytes is not checked, because look.sql does not read it.
SELECT f.id, belfry.is_utf8(i.queue) AND belfry.is_utf8(i.partition) AND belfry.is_utf8(i.transaction_id) AND belfry.is_utf8(i.tenant) AND belfry.is_utf8(i.payload) AS readable
  FROM (SELECT i.id FROM belfry.inbox i WHERE i.id > $1::bigint ORDER BY i.id LIMIT $2::bigint) AS f
 CROSS JOIN LATERAL (
       SELECT i.queue, i.partition, i.transaction_id, i.tenant,
              CASE WHEN octet_length(i.payload::text) <= $3::bigint THEN i.payload::text END AS payload
         FROM belfry.inbox i WHERE i.id = f.id OFFSET 0) AS i
 ORDER BY f.id
