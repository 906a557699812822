-- Begins the deletion of group $1. After the commit no statement uses its cursors and leases. Returns
-- the group if it existed. $2: the epoch in which the id is valid.
WITH gone AS (
    DELETE FROM belfry.consumer_group g
     WHERE g.id = $1::bigint AND belfry.epoch() = $2::bigint
    RETURNING g.id, g.queue_id, g.name, g.mode, g.start_at, g.created_at
), noted AS (
    INSERT INTO belfry.group_deleted (group_id, queue_id)
    SELECT gone.id, gone.queue_id FROM gone
)
SELECT gone.queue_id, gone.name, gone.mode, gone.start_at, gone.created_at FROM gone
