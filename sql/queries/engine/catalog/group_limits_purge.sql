-- Deletes the places and the buckets of group $1, whose deletion has begun. No cursor of the group exists any more, so no claim
-- makes new ones.
WITH places AS (
    DELETE FROM belfry.limit_slot s WHERE s.group_id = $1::bigint
)
DELETE FROM belfry.limit_bucket b WHERE b.group_id = $1::bigint
