-- Changes the state of the stream $1 in the partition with id $2 and uid $3. $4 keys, $5 values and $6
-- window ends to store. $7 keys to delete. A key occurs once in $4 and $7 together. Returns the number
-- of deleted keys. No row: the partition does not exist, or is being deleted.
--
-- The lock prevents a deletion of the partition until the commit, and does not block pushes. The
-- statement does not wait for the lock, because a cycle locks this partition after others, in no order.
WITH place AS MATERIALIZED (
    SELECT p.id AS partition_id
      FROM belfry.partition p
     WHERE p.id >= $2::bigint AND p.id <= $2::bigint AND p.uid = $3::uuid AND NOT p.closed
     ORDER BY p.id DESC
     LIMIT 1
       FOR KEY SHARE SKIP LOCKED
), place_of AS MATERIALIZED (
    SELECT s.id AS stream_id, p.partition_id
      FROM place p
      JOIN belfry.stream s ON s.uid = $1::uuid
), deleted AS (
    DELETE FROM belfry.stream_state d
     USING place_of o
     WHERE d.stream_id = o.stream_id AND d.partition_id = o.partition_id AND d.key = ANY ($7::text[])
RETURNING d.key
), stored AS (
    INSERT INTO belfry.stream_state AS t (stream_id, partition_id, key, value, window_end, updated_at)
    SELECT o.stream_id, o.partition_id, n.key, n.value::json, n.window_end, clock_timestamp()
      FROM place_of o
     CROSS JOIN unnest($4::text[], $5::text[], $6::float8[]) AS n(key, value, window_end)
        ON CONFLICT (stream_id, partition_id, key) DO UPDATE
       SET value = excluded.value, window_end = excluded.window_end, updated_at = excluded.updated_at
)
SELECT (SELECT count(*) FROM deleted) AS deleted
  FROM place_of o
