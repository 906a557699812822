-- Clears ready_at of cursors that a SQL consumer drained; see belfry.settle_drained. $1 partition
-- ids, $2 group ids.
SELECT belfry.settle_drained($1::bigint[], $2::bigint[]) AS settled
