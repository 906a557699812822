-- Deletes the inbox rows $1 in the transaction that appends their messages. Raises BF002 if a row
-- is missing.
SELECT belfry.inbox_delete($1::bigint[])
