-- Sets ready_at of cursors that have messages or redrives although ready_at is NULL or too late. $1:
-- partition ids. It runs after the commit of every change that can cause such a cursor; docs/design.md has the
-- proof. It waits for cursor locks in (partition, group) order. Returns the cursors that became ready.
-- The commit does not wait for the disk: a crash that loses the commit breaks every connection, and then
-- each instance runs the healing query.
SELECT w.group_id, w.partition_id, w.ready_in, statement_timestamp() + make_interval(secs => w.ready_in) AS ready_at
  FROM belfry.wake_partitions($1::bigint[]) AS w
