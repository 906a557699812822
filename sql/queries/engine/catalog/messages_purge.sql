-- Deletes up to $2 messages of the partitions $1, if the partitions are closed: a restored backup may
-- have undone the deletion of the queue. Messages of a deleted queue never change, so their ctid is stable.
DELETE FROM belfry.message m
 WHERE m.ctid = ANY (ARRAY (
        SELECT d.ctid
          FROM belfry.message d
         WHERE d.partition_id = ANY (ARRAY (SELECT p.id FROM belfry.partition p WHERE p.id = ANY ($1::bigint[]) AND p.closed))
         LIMIT $2::bigint))
