-- Sets ready_at of cursors that have messages or redrives although their row says otherwise. $1:
-- partition ids. It runs after the commit of every change that can cause this; docs/design.md has
-- the proof. It waits for cursor locks in (partition, group) order. Returns the cursors that became
-- ready. The commit does not wait for the disk: a crash that loses it breaks every connection, and
-- a resync follows.
SELECT w.group_id, w.partition_id, w.ready_in, statement_timestamp() + make_interval(secs => w.ready_in) AS ready_at
  FROM belfry.wake_partitions($1::bigint[]) AS w
