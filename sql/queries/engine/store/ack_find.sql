-- Finds the messages of an ack. By array: $1 partition ids, $2 transaction ids. Returns the position
-- (from 1) and the seq of each existing message.
SELECT i.ord, m.seq
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS i(partition_id, transaction_id, ord)
 CROSS JOIN LATERAL (
        SELECT d.seq FROM belfry.message d
         WHERE d.partition_id = i.partition_id AND d.transaction_id = i.transaction_id
         LIMIT 1) AS m
