-- Deletes up to $2 keys of the state of streams in partitions $1.
DELETE FROM belfry.stream_state s
 WHERE s.ctid = ANY (ARRAY (
        SELECT d.ctid FROM belfry.stream_state d WHERE d.partition_id = ANY ($1::bigint[]) LIMIT $2::bigint))
