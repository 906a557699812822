-- Appends messages; see belfry.append. By partition: $1 ids, $2 counts, $3 visible until. $4: ids of the
-- partitions whose payloads are encrypted. By message: $5 index of the partition, $6 position in the
-- partition, $7 id, $8 transaction id, $9 payload, $10 trace id, $11 producer, $12 visible at, $13
-- encrypted, $17 headers. $14: a transaction id may be stored already. $15: ids of partitions whose queue
-- has a maxSize.
--
-- $16: the epoch in which the ids are valid. If the epoch differs, every partition counts as missing.
-- The subselect locks the table before the epoch is read.
SELECT a.ord, a.stored_id
  FROM belfry.append(CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $16::bigint THEN $1::bigint[] ELSE '{}' END, $2::bigint[], $3::timestamptz[], $4::bigint[], $5::integer[], $6::integer[], $7::uuid[],
                     $8::text[], $9::text[], $10::uuid[], $11::text[], $12::timestamptz[], $13::boolean[], $14::boolean, $15::bigint[], $17::text[]) AS a
