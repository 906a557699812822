-- Stores the state of stream $1 (id). By array: $2 uids of partitions, $3 keys, $4 values, $5 instants.
INSERT INTO belfry.stream_state AS s (stream_id, partition_id, key, value, window_end, updated_at)
SELECT $1::bigint, p.id, k.key, k.value::json,
       CASE WHEN json_typeof(k.value::json -> 'windowEnd') = 'number' THEN (k.value::json ->> 'windowEnd')::float8 END, k.updated_at
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) AS k(uid, key, value, updated_at)
  JOIN belfry.partition p ON p.uid = k.uid
ON CONFLICT (stream_id, partition_id, key) DO UPDATE
   SET value = excluded.value, window_end = excluded.window_end, updated_at = excluded.updated_at
