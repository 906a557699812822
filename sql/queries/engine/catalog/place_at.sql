-- Returns the instant at which the last message up to seq $2 of partition $1 was stored. NULL: there is
-- no such message. The newest message of a partition counts even if it is deleted.
SELECT CASE WHEN p.last_seq = $2::bigint THEN p.last_push_at ELSE (
            SELECT m.created_at FROM belfry.message m
             WHERE m.partition_id = p.id AND m.seq <= $2::bigint
             ORDER BY m.seq DESC LIMIT 1) END AS stored_at
  FROM belfry.partition p
 WHERE p.id >= $1::bigint AND p.id <= $1::bigint
 ORDER BY p.id DESC
 LIMIT 1
