-- Counts the leases that are live, and the messages that they cover. $1: names of queues as LIKE patterns
-- (NULL: any).
SELECT count(*) AS leases, count(DISTINCT c.partition_id) AS partitions,
       coalesce(sum(CASE WHEN c.lease_end < 0 THEN -c.lease_end ELSE greatest(c.lease_end - c.committed, 0) END), 0)::bigint AS messages
  FROM belfry.cursor c
 WHERE c.lease_id IS NOT NULL AND c.lease_until > statement_timestamp()
   AND ($1::text[] IS NULL OR EXISTS (
        SELECT 1 FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id
         WHERE p.id = c.partition_id AND q.name COLLATE "C" LIKE ANY ($1::text[])))
