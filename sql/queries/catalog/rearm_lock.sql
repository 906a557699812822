-- Locks the free cursors of partitions $1 for rearm.sql, and never waits. Leased cursors are
-- included, because the end of a lease may have computed ready_at before the option changed.
-- Returns all cursors, and the locked ones a second time.
WITH free AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($1::bigint[])
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT f.partition_id, f.group_id, true AS locked FROM free f
UNION ALL
SELECT c.partition_id, c.group_id, false FROM belfry.cursor c WHERE c.partition_id = ANY ($1::bigint[])
