-- Reads the redrives among the messages of an ack. Their cursors are locked. By message: $1
-- partition ids, $2 group ids, $3 seqs. leased: the redrive belongs to the lease of the cursor.
SELECT r.partition_id, r.group_id, r.seq, r.failures, coalesce(r.lease_id = c.lease_id, false) AS leased
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS i(partition_id, group_id, seq)
 CROSS JOIN LATERAL (
        SELECT d.partition_id, d.group_id, d.seq, d.failures, d.lease_id
          FROM belfry.redrive d
         WHERE d.partition_id = i.partition_id AND d.group_id = i.group_id AND d.seq = i.seq OFFSET 0) AS r
 CROSS JOIN LATERAL (
        SELECT c.lease_id FROM belfry.cursor c
         WHERE c.partition_id = i.partition_id AND c.group_id = i.group_id OFFSET 0) AS c
