-- Locks the cursors of acks, judges the acks and writes the changes; see belfry.apply_acks. By cursor:
-- $1 partition ids, $2 their uids, $3 group names, $4 the index of the last entry. By entry: $5 calls,
-- $6 seqs, $7 leases, $8 statuses, $9 error texts, $10 pauses. $11: the milliseconds to wait for one
-- lock. $12: the transaction has one cursor and locks nothing else. $13: the consumers of failed acks, by
-- entry. $14: the name of this instance.
SELECT a.item, a.entry, a.verdict, a.cursor_index, a.partition_id, a.group_id, a.lease_before, a.ended_by, a.ready_at, a.ready_in, a.needs_wake,
       a.gives_room
  FROM belfry.apply_acks($1::bigint[], $2::uuid[], $3::text[], $4::integer[], $5::integer[], $6::bigint[], $7::uuid[], $8::smallint[],
                         $9::bytea[], $10::bigint[], $11::text, false, $12::boolean, $13::text[], $14::text) AS a
