-- Reads the first $2 rows of the inbox among all rows. It has the parameters and columns of look.sql.
-- The sequencer uses it in place of look.sql if the snapshot $1 is empty. It reads only these rows, however
-- many rows wait.
WITH ordered AS MATERIALIZED (
    SELECT i.id, row_number() OVER (ORDER BY i.id) AS nth
      FROM belfry.inbox i WHERE $1::text IS NOT NULL ORDER BY i.id LIMIT $2::bigint
)
SELECT CASE WHEN coalesce(o.nth, 1) = 1 THEN pg_current_snapshot()::text END AS snapshot,
       o.id, i.queue, coalesce(i.partition, 'Default') AS partition,
       CASE WHEN octet_length(i.payload::text) <= $3::bigint THEN i.payload::text END AS payload,
       octet_length(i.payload::text) AS bytes, coalesce(i.transaction_id, '') AS transaction_id, i.trace_id,
       CASE WHEN isfinite(i.visible_at) THEN i.visible_at END AS visible_at,
       coalesce(i.visible_at > clock_timestamp() + interval '366 days', false) AS too_late,
       CASE WHEN octet_length(i.headers::text) > 65536 THEN '0' ELSE i.headers::text END AS headers, i.tenant
  FROM (SELECT 1) AS always
  LEFT JOIN ordered o ON true
  LEFT JOIN LATERAL (
        SELECT i.queue, i.partition, i.payload, i.transaction_id, i.trace_id, i.visible_at, i.headers, i.tenant
          FROM belfry.inbox i WHERE i.id = o.id OFFSET 0) AS i ON true
 ORDER BY o.nth
