-- Lists the redriven messages that the lease $3 delivered to the group $2 in partition $1, before the
-- message with the transaction id $4.
SELECT x.seq
  FROM (SELECT p.id, p.queue_id FROM belfry.partition p
         WHERE p.id >= $1::bigint AND p.id <= $1::bigint
         ORDER BY p.id DESC
         LIMIT 1) AS p
 CROSS JOIN LATERAL (
        SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND g.name = $2::text OFFSET 0) AS g
 CROSS JOIN LATERAL (
        SELECT m.seq FROM belfry.message m WHERE m.partition_id = p.id AND m.transaction_id = $4::text LIMIT 1) AS m
 CROSS JOIN LATERAL (
        SELECT x.seq FROM belfry.redrive x
         WHERE x.partition_id = p.id AND x.group_id = g.id AND x.seq < m.seq AND x.lease_id = $3::uuid OFFSET 0) AS x
