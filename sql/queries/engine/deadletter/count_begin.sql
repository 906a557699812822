-- Begins a count of dead letters: its instant, its snapshot, the epoch, and the groups to count. $1 queue. $2 group (NULL: all).
SELECT statement_timestamp() AS counted_at, pg_current_snapshot()::text AS snapshot, belfry.epoch() AS epoch,
       ARRAY (SELECT g.id FROM belfry.queue q JOIN belfry.consumer_group g ON g.queue_id = q.id
               WHERE q.name = $1::text AND q.deleted_at IS NULL AND ($2::text IS NULL OR g.name = $2::text)
               ORDER BY g.id) AS groups
