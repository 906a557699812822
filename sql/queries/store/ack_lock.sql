-- Locks the cursors of an ack in (partition, group) order, and reads what the ack rules need. $1
-- partition ids, $2 group names (distinct pairs). Rows are reached by their newest version; see
-- sql/schema/partition.sql. last_seq is the newest message of the partition. partition_uid
-- identifies the partition: after a restore, an id may stand for another one.
SELECT c.partition_id, c.group_id, k.name, c.committed, coalesce(c.skip, '{}') AS skip, c.failures, c.attempts,
       c.lease_id, c.lease_id IS NOT NULL AND c.lease_until > clock_timestamp() AS lease_live,
       coalesce(c.lease_end, 0) AS lease_end, k.retry_limit, k.retry_backoff_ms, c.redrives > 0 AS redriven, k.last_seq, k.uid AS partition_uid
  FROM (SELECT w.partition_id, w.group_name AS name, g.id AS group_id, q.retry_limit, q.retry_backoff_ms, p.last_seq, p.uid
          FROM unnest($1::bigint[], $2::text[]) AS w(partition_id, group_name)
         CROSS JOIN LATERAL (
                SELECT p.uid, p.queue_id, p.last_seq FROM belfry.partition p
                 WHERE p.id >= w.partition_id AND p.id <= w.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         CROSS JOIN LATERAL (SELECT q.retry_limit, q.retry_backoff_ms
                 FROM belfry.queue q WHERE q.id = p.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
         CROSS JOIN LATERAL (
                SELECT g.id FROM belfry.consumer_group g
                 WHERE g.queue_id = p.queue_id AND g.name = w.group_name OFFSET 0) AS g
         ORDER BY w.partition_id, g.id) AS k
  CROSS JOIN LATERAL (
         SELECT c.partition_id, c.group_id, c.committed, c.skip, c.failures, c.attempts, c.lease_id, c.lease_until,
                c.lease_end, c.redrives
           FROM belfry.cursor c
          WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
          ORDER BY c.group_id DESC
          LIMIT 1
            FOR NO KEY UPDATE) AS c
