-- Moves the cursors of group $1 back over messages that an autoAck pop consumed and could not deliver.
-- By array: $2 partition ids, $3 first and $4 last consumed seq, $5 number of messages, $6 the undo
-- value of belfry.claim: the earlier failures and attempts of the first message ('' for none). A cursor
-- that has moved since does not change. The other cursors are ready at once. A delivery is one range of
-- the log, so it contains no skipped message.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, k.first_seq, k.n, nullif(k.head, '')::json AS head
      FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
           AS k(partition_id, first_seq, last_seq, n, head)
      JOIN belfry.cursor c ON c.partition_id = k.partition_id AND c.group_id = $1::bigint
     WHERE c.partition_id = ANY ($2::bigint[]) AND c.committed = k.last_seq AND c.lease_id IS NULL
     ORDER BY c.partition_id
       FOR NO KEY UPDATE OF c
)
UPDATE belfry.cursor c
   SET committed = h.first_seq - 1, consumed = c.consumed - h.n, ready_at = statement_timestamp(),
       failures = coalesce((h.head ->> 'failures')::integer, 0), attempts = coalesce((h.head ->> 'attempts')::integer, 0)
  FROM held h
 WHERE c.partition_id = ANY ($2::bigint[]) AND c.partition_id = h.partition_id AND c.group_id = $1::bigint
RETURNING c.group_id, c.partition_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in, c.ready_at
