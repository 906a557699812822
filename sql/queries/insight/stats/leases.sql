-- Counts the live leases, and the messages that these leases cover. $1: LIKE patterns of queue names
-- (NULL: any).
SELECT count(*) AS leases, count(DISTINCT c.partition_id) AS partitions,
       coalesce(sum(CASE WHEN c.lease_end < 0 THEN -c.lease_end ELSE greatest(c.lease_end - c.committed, 0) END), 0)::bigint AS messages
  FROM belfry.cursor c
 WHERE c.lease_id IS NOT NULL AND c.lease_until > statement_timestamp()
   AND ($1::text[] IS NULL OR EXISTS (
        SELECT 1 FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id
         WHERE p.id = c.partition_id AND q.name COLLATE "C" LIKE ANY ($1::text[])))
