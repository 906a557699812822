-- Reads the state of the message at seq $2 for each group that reads partition $1: consumed, leased
-- until, or dead-lettered with attempts and error. The rows are in the order of the group names.
SELECT g.name,
       r.seq IS NULL AND (c.committed >= $2::bigint OR coalesce($2::bigint <@ c.skip, false)) AS consumed,
       CASE WHEN c.lease_until > statement_timestamp()
             AND CASE WHEN c.lease_end < 0 THEN r.lease_id = c.lease_id
                      ELSE c.committed < $2::bigint AND $2::bigint <= c.lease_end AND NOT coalesce($2::bigint <@ c.skip, false) END
            THEN c.lease_until END AS leased_until,
       d.attempts, d.error, d.failed_at
  FROM belfry.cursor c
  JOIN belfry.consumer_group g ON g.id = c.group_id
  LEFT JOIN belfry.redrive r ON r.partition_id = $1::bigint AND r.group_id = c.group_id AND r.seq = $2::bigint
  LEFT JOIN belfry.dead_letter d ON d.partition_id = $1::bigint AND d.group_id = c.group_id AND d.seq = $2::bigint
 WHERE c.partition_id = $1::bigint
 ORDER BY g.name COLLATE "C"
