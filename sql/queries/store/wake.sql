-- Sets ready_at where a partition has messages beyond a cursor, or redriven ones,
-- and the cursor says that it has none. What was stored before a group's start is
-- passed over (cursor.start_at). Runs after the commit of whatever may have caused
-- that (I3; the proof is in pkg/store/doc.go). Waits for cursor locks in the one
-- order everybody waits in. $1: partition ids. Returns what became ready. It does
-- not wait for the disk: a crash that forgets it breaks every connection, and that
-- heals.
SELECT w.group_id, w.partition_id, w.ready_in, statement_timestamp() + make_interval(secs => w.ready_in) AS ready_at
  FROM belfry.wake_partitions($1::bigint[]) AS w
