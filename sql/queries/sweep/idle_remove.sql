-- Removes partition $1 if it is empty and nothing was pushed for $2 days, as
-- migration 000009 tells. Says whether it did.
SELECT belfry.remove_idle_partition($1::bigint, make_interval(days => $2::integer)) AS removed
