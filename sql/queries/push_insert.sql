-- Appends messages to partitions this transaction has locked, so its snapshot
-- holds everything stored in them and the look for duplicates is exact (I7).
-- Arrays by item, sorted by partition, no (partition, transaction id) twice:
-- $1 partition ids, $2 message ids, $3 transaction ids, $4 payloads; empty or
-- as long: $5 trace ids, $6 producer subs, $7 visible-at, $8 encrypted. $9: a
-- transaction id may be stored already; false when all of them are new.
-- Returns a row for each duplicate: its place (from 1) and the stored id.
WITH item AS MATERIALIZED (
    SELECT i.ord, i.partition_id, i.id, i.transaction_id, i.payload, i.trace_id, i.producer_sub, i.visible_at,
           i.encrypted, stored.id AS stored_id
      FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::timestamptz[], $8::boolean[])
           WITH ORDINALITY AS i(partition_id, id, transaction_id, payload, trace_id, producer_sub, visible_at, encrypted, ord)
      LEFT JOIN LATERAL (
            SELECT m.id FROM belfry.message m
             WHERE $9::boolean AND m.partition_id = i.partition_id AND m.transaction_id = i.transaction_id
             LIMIT 1) AS stored ON true
), fresh AS (
    SELECT i.partition_id, count(*) AS n, max(i.visible_at) AS visible_until
      FROM item i
     WHERE i.stored_id IS NULL
     GROUP BY i.partition_id
), moved AS (
    UPDATE belfry.partition p
       SET last_seq = p.last_seq + f.n,
           last_push_at = greatest(p.last_push_at, statement_timestamp()),
           visible_until = greatest(p.visible_until, f.visible_until)
      FROM fresh f
     WHERE p.id = ANY ($1::bigint[]) AND p.id = f.partition_id
    RETURNING p.id, p.last_seq - f.n AS base, p.last_push_at AS created_at
), stored AS (
    INSERT INTO belfry.message
           (partition_id, seq, created_at, visible_at, id, trace_id, encrypted, transaction_id, producer_sub, payload)
    SELECT i.partition_id, moved.base + row_number() OVER (PARTITION BY i.partition_id ORDER BY i.ord),
           moved.created_at, i.visible_at, i.id, i.trace_id, coalesce(i.encrypted, false), i.transaction_id,
           i.producer_sub, i.payload::json
      FROM item i
      JOIN moved ON moved.id = i.partition_id
     WHERE i.stored_id IS NULL
)
SELECT i.ord, i.stored_id
  FROM item i
 WHERE i.stored_id IS NOT NULL
