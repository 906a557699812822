-- Extends every live lease with id $1 to now + $2 seconds, and never shortens it. A lease of a deleted
-- group or queue is not live. Returns the earliest end of these leases, or NULL if no lease is live.
-- known: a lease with this id exists, live or expired.
WITH held AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM belfry.cursor c
     WHERE c.lease_id = $1::uuid AND c.lease_until > statement_timestamp()
       AND (SELECT g.id FROM belfry.consumer_group g
               JOIN belfry.queue q ON q.id = g.queue_id AND q.deleted_at IS NULL
              WHERE g.id = c.group_id) IS NOT NULL
     ORDER BY c.partition_id + 0, c.group_id -- + 0 avoids the order of an index
       FOR NO KEY UPDATE
), locked AS MATERIALIZED (
    SELECT h.partition_id, h.group_id, clock_timestamp() AS at FROM held h -- under the lock; see belfry.take_slot
), extended AS (
    UPDATE belfry.cursor c
       SET lease_until = greatest(c.lease_until, statement_timestamp() + make_interval(secs => $2::bigint)),
           ready_at = greatest(c.lease_until, statement_timestamp() + make_interval(secs => $2::bigint))
      FROM locked l
     WHERE c.partition_id = l.partition_id AND c.group_id = l.group_id AND c.lease_id = $1::uuid AND c.lease_until > l.at
    RETURNING c.lease_until
)
SELECT min(e.lease_until) AS expires_at,
       EXISTS (SELECT 1 FROM belfry.cursor c
                WHERE c.lease_id = $1::uuid
                  AND (SELECT g.id FROM belfry.consumer_group g
               JOIN belfry.queue q ON q.id = g.queue_id AND q.deleted_at IS NULL
              WHERE g.id = c.group_id) IS NOT NULL) AS known
  FROM extended e
