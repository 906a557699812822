-- Reads the first $2 rows of the inbox that snapshot $1 (as text) did not contain, in the order of the
-- inserts. It searches for rows of transactions that were not finished in that snapshot, so it does not
-- read deleted rows. A payload of more than $3 bytes is NULL, and headers of more than
-- 64 KiB are 0. The first row always exists, and has the
-- snapshot of this statement. Its id is NULL if no row was found.
WITH fresh AS MATERIALIZED (
    SELECT i.id FROM belfry.inbox i WHERE i.xid >= pg_snapshot_xmax($1::text::pg_snapshot)
    UNION ALL
    SELECT i.id
      FROM pg_snapshot_xip($1::text::pg_snapshot) AS x(xid)
     CROSS JOIN LATERAL (SELECT i.id FROM belfry.inbox i WHERE i.xid = x.xid OFFSET 0) AS i
), ordered AS MATERIALIZED (
    SELECT f.id, row_number() OVER (ORDER BY f.id) AS nth FROM fresh f ORDER BY f.id LIMIT $2::bigint
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
