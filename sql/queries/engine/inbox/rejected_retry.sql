-- Puts the rejected rows with the ids $1 back at the end of the inbox. Returns the number of rows.
SELECT belfry.inbox_retry($1::bigint[]) AS rows
