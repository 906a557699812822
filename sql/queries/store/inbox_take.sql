-- Removes the rows $1 of the inbox, all of them or BF002. Runs in the transaction
-- that appends their messages.
SELECT belfry.inbox_delete($1::bigint[])
