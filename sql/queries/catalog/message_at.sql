-- Reads the id of the message at seq $2 of partition $1, if it is stored.
SELECT m.id FROM belfry.message m
 WHERE m.partition_id = $1::bigint AND m.seq = $2::bigint
