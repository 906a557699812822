-- Removes partition $1 if it is empty and got no push for $2 days; see
-- belfry.remove_idle_partition. Returns whether it did.
SELECT belfry.remove_idle_partition($1::bigint, make_interval(days => $2::integer)) AS removed
