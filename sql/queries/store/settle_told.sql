-- Puts cursors to sleep that a consumer in SQL left due with nothing behind them,
-- as migration 000015 tells. $1 partition ids, $2 group ids.
SELECT belfry.settle_drained($1::bigint[], $2::bigint[]) AS settled
