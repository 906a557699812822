-- Begins the deletion of group $1: from this commit on its cursors and leases
-- mean nothing. Returns it when it existed. $2: the life of the database in which it
-- has that id.
WITH gone AS (
    DELETE FROM belfry.consumer_group g
     WHERE g.id = $1::bigint AND belfry.epoch() = $2::bigint
    RETURNING g.id, g.queue_id, g.name, g.mode, g.start_at, g.created_at
), noted AS (
    INSERT INTO belfry.group_deleted (group_id, queue_id)
    SELECT gone.id, gone.queue_id FROM gone
)
SELECT gone.queue_id, gone.name, gone.mode, gone.start_at, gone.created_at FROM gone
