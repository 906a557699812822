-- Creates the missing cursors of group $1 in the partitions with uids $2 of queue $3. By array: a cursor
-- is at the last message up to the instant $4 and the id $5, has consumed $6 messages, and has $7
-- failures.
INSERT INTO belfry.cursor (partition_id, group_id, committed, consumed, consumed_at, failures)
SELECT p.id, $1::bigint,
       coalesce((SELECT m.seq FROM belfry.message m
                  WHERE m.partition_id = p.id AND (m.created_at, m.id) <= (k.place_at, k.place_id)
                  ORDER BY m.seq DESC LIMIT 1), 0),
       k.consumed, k.place_at, k.failures
  FROM unnest($2::uuid[], $4::timestamptz[], $5::uuid[], $6::bigint[], $7::integer[]) AS k(uid, place_at, place_id, consumed, failures)
  JOIN belfry.partition p ON p.uid = k.uid AND p.queue_id = $3::bigint
 WHERE NOT EXISTS (SELECT FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = $1::bigint)
