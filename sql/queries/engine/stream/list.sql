-- Lists at most $3 streams by source and name, after the source $1 and the name $2 (NULL: from the
-- start). $4: LIKE patterns of names of sources (NULL: any). keys counts at most 10,001 keys.
SELECT s.uid, s.source, s.name, coalesce(s.sink, '') AS sink, s.config_hash, s.created_at, s.updated_at,
       (SELECT count(*) FROM (SELECT FROM belfry.stream_state k WHERE k.stream_id = s.id LIMIT 10001) AS counted) AS keys
  FROM belfry.stream s
 WHERE ($1::text IS NULL OR (s.source, s.name) > ($1::text, $2::text))
   AND ($4::text[] IS NULL OR s.source COLLATE "C" LIKE ANY ($4::text[]))
 ORDER BY s.source, s.name
 LIMIT $3::bigint
