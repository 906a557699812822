-- Sets the uids $2 and the creation times $3 of the source in the empty partitions $1 (ids).
UPDATE belfry.partition p
   SET uid = k.uid, created_at = k.created_at
  FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[]) AS k(id, uid, created_at)
 WHERE p.id = k.id AND p.last_seq = 0 AND p.uid <> k.uid
