-- Creates group $2 of queue $1 (id) with mode $3 and start $4, if it does not exist, and returns its id.
WITH made AS (
    INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue)
    VALUES ($1::bigint, $2::text, $3::text, $4::timestamptz, true)
    ON CONFLICT (queue_id, name) DO NOTHING
    RETURNING id
)
SELECT m.id FROM made m
UNION ALL
SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = $1::bigint AND g.name = $2::text
