-- Locks the cursors of partitions $1 that nobody holds, before rearm.sql; it never
-- waits. Also those that are leased: who ends a lease may have computed ready_at
-- before an option changed. Returns all there are, and those it locked once more.
WITH free AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($1::bigint[])
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT f.partition_id, f.group_id, true AS locked FROM free f
UNION ALL
SELECT c.partition_id, c.group_id, false FROM belfry.cursor c WHERE c.partition_id = ANY ($1::bigint[])
