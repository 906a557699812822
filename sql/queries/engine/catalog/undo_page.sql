-- Reads the next places of the seek $1: the row after the first partition $2.
SELECT p.first, p.partitions, p.before, p.after
  FROM belfry.audit_places p
 WHERE p.audit_id = $1::uuid AND p.first > $2::bigint
 ORDER BY p.first
 LIMIT 1
