-- Deletes the limits of a queue whose deletion has begun ($1), with the places, the buckets and the breakers of its groups.
WITH gone AS (
    SELECT g.id FROM belfry.consumer_group g
     WHERE g.queue_id = $1::bigint
       AND EXISTS (SELECT 1 FROM belfry.queue q WHERE q.id = $1::bigint AND q.deleted_at IS NOT NULL)
), places AS (
    DELETE FROM belfry.limit_slot s WHERE s.group_id = ANY (ARRAY (SELECT gone.id FROM gone))
), buckets AS (
    DELETE FROM belfry.limit_bucket b WHERE b.group_id = ANY (ARRAY (SELECT gone.id FROM gone))
), breakers AS (
    DELETE FROM belfry.breaker b WHERE b.group_id = ANY (ARRAY (SELECT gone.id FROM gone))
), counts AS (
    DELETE FROM belfry.breaker_count c WHERE c.group_id = ANY (ARRAY (SELECT gone.id FROM gone))
), numbers AS (
    DELETE FROM belfry.limit_number n WHERE n.group_id = ANY (ARRAY (SELECT gone.id FROM gone))
)
DELETE FROM belfry.group_limit l
 WHERE l.queue_id = $1::bigint
   AND EXISTS (SELECT 1 FROM belfry.queue q WHERE q.id = $1::bigint AND q.deleted_at IS NOT NULL)
