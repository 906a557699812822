-- Deletes the places, the buckets and the breaker of group $1, whose deletion has begun. No cursor of the group exists any more, so no claim
-- makes new ones.
WITH places AS (
    DELETE FROM belfry.limit_slot s WHERE s.group_id = $1::bigint
), breakers AS (
    DELETE FROM belfry.breaker b WHERE b.group_id = $1::bigint
), counts AS (
    DELETE FROM belfry.breaker_count c WHERE c.group_id = $1::bigint
), numbers AS (
    DELETE FROM belfry.limit_number n WHERE n.group_id = $1::bigint
)
DELETE FROM belfry.limit_bucket b WHERE b.group_id = $1::bigint
