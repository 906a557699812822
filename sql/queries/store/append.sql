-- Appends messages, as migrations 000003 and 000006 tell. By partition: $1 ids, $2 counts,
-- $3 visible until, $4 those that are sealed. By message: $5 lane, $6 place
-- within it, $7 id, $8 transaction id, $9 payload, $10 trace id, $11 producer
-- sub, $12 visible at, $13 encrypted. $14: a transaction id may be stored.
-- $15: the partitions that are remembered as those of a queue with a maxSize. $16:
-- the life of the database in which ids are what they are remembered as; in another
-- one all are gone. The table is named here, so it is locked before its life is looked at.
SELECT a.ord, a.stored_id
  FROM belfry.append(CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $16::bigint THEN $1::bigint[] ELSE '{}' END, $2::bigint[], $3::timestamptz[], $4::bigint[], $5::integer[], $6::integer[], $7::uuid[],
                     $8::text[], $9::text[], $10::uuid[], $11::text[], $12::timestamptz[], $13::boolean[], $14::boolean, $15::bigint[]) AS a
