-- Reads the committed seq of the cursors with the leases $1. It is NULL for a lease of redriven
-- messages. A lease that has ended has no row.
SELECT c.lease_id, c.partition_id, CASE WHEN c.lease_end > 0 THEN c.committed END AS done
  FROM belfry.cursor c
 WHERE c.lease_id = ANY ($1::uuid[]) AND c.lease_until > statement_timestamp()
