-- Lists the state of stream $1 in partition $2 (both uids), by key. $3: keys (NULL: all). $4 and $5:
-- keys from $4 and below $5 (NULL: all). $6: keys whose windows end at or before $6 (NULL: all). The
-- statement compares keys as row values, so the planner can use only one index, even without statistics.
SELECT k.key, k.value, k.updated_at
  FROM belfry.stream s
 CROSS JOIN LATERAL (
        SELECT p.id FROM belfry.partition p WHERE p.uid = $2::uuid AND NOT p.closed OFFSET 0) AS p
 CROSS JOIN LATERAL (
        SELECT k.key, k.value, k.updated_at
          FROM belfry.stream_state k
         WHERE k.stream_id = s.id AND k.partition_id = p.id AND $6::float8 IS NULL
           AND $3::text[] IS NULL
           AND k.key >= coalesce($4::text, '') AND ($5::text IS NULL OR k.key < $5::text)
        UNION ALL
        SELECT k.key, k.value, k.updated_at
          FROM belfry.stream_state k
         WHERE k.stream_id = s.id AND k.partition_id = p.id AND k.window_end <= $6::float8
           AND $3::text[] IS NULL
           AND k.key >= coalesce($4::text, '') AND ($5::text IS NULL OR k.key < $5::text)
        UNION ALL
        SELECT k.key, k.value, k.updated_at
          FROM (SELECT DISTINCT w.key FROM unnest($3::text[]) AS w(key)) AS w
         CROSS JOIN LATERAL (
                SELECT k.key, k.value, k.updated_at, k.window_end
                  FROM belfry.stream_state k
                 WHERE (k.stream_id, k.partition_id, k.key) >= (s.id, p.id, w.key)
                   AND (k.stream_id, k.partition_id, k.key) <= (s.id, p.id, w.key)
                OFFSET 0) AS k
         WHERE k.key >= coalesce($4::text, '') AND ($5::text IS NULL OR k.key < $5::text)
           AND ($6::float8 IS NULL OR k.window_end <= $6::float8)) AS k
 WHERE s.uid = $1::uuid
 ORDER BY k.key
