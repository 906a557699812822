-- Locks each cursor of partitions $1 that no other transaction has locked, and never waits.
-- recompute_ready.sql runs after it. Returns each cursor with own = false. For each locked cursor,
-- returns a second row with own = true.
--
-- Leased cursors are included: another transaction may end the lease now, and write a ready_at that it
-- computed before the option changed.
WITH own AS MATERIALIZED (
    SELECT c.partition_id, c.group_id
      FROM belfry.cursor c
     WHERE c.partition_id = ANY ($1::bigint[])
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT o.partition_id, o.group_id, true AS own FROM own o
UNION ALL
SELECT c.partition_id, c.group_id, false FROM belfry.cursor c WHERE c.partition_id = ANY ($1::bigint[])
