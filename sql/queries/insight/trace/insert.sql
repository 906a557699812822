-- Stores a trace of a message. It locks the message, so the message cannot be deleted before the commit.
-- $1 id, $2 uid of the partition, $3 transaction id, $4 group, $5 event type, $6 worker, $7 distinct
-- names, $8 data. Returns the number of stored traces. 0: the message does not exist.
WITH message AS (
    SELECT m.partition_id, m.seq
      FROM belfry.partition p
      JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $3::text
     WHERE p.uid = $2::uuid AND NOT p.closed
       FOR KEY SHARE OF m
), stored AS (
    INSERT INTO belfry.trace (id, partition_id, seq, group_name, event_type, worker, names, data)
    SELECT $1::uuid, m.partition_id, m.seq, $4::text, $5::text, $6::text, $7::text[], $8::text::json
      FROM message m
    RETURNING id, created_at
), named AS (
    INSERT INTO belfry.trace_name (name, created_at, trace_id)
    SELECT n.name, s.created_at, s.id
      FROM stored s
     CROSS JOIN unnest($7::text[]) AS n(name)
)
SELECT count(*) AS n
  FROM stored s
