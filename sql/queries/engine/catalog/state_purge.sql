-- Deletes up to $2 keys of the state of streams in the closed partitions $1.
DELETE FROM belfry.stream_state s
 WHERE s.ctid = ANY (ARRAY (
        SELECT d.ctid FROM belfry.stream_state d WHERE d.partition_id = ANY (ARRAY (SELECT p.id FROM belfry.partition p WHERE p.id = ANY ($1::bigint[]) AND p.closed)) LIMIT $2::bigint))
