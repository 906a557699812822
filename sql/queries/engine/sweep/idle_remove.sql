-- Removes partition $1 if it is empty and got no push for $2 days; see belfry.remove_idle_partition.
-- Returns whether the partition was removed, and the name of its queue.
SELECT belfry.remove_idle_partition($1::bigint, make_interval(days => $2::integer)) AS removed,
       coalesce((SELECT q.name FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE p.id = $1::bigint), '') AS queue
