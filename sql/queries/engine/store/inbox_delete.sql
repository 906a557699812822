-- Deletes the inbox rows with the ids $1. The same transaction appends their messages. Raises BF002 if a
-- row is missing, because another sequencer has appended its message.
SELECT belfry.inbox_delete($1::bigint[])
