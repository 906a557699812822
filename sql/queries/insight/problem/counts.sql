-- Counts the unfinished messages of partitions, and returns their names. By array: $1 ids of groups, $2 of partitions. With the group 0
-- it counts for the group that is furthest behind, and all stored messages if there is no group. One row for each partition, by its
-- position from 1.
SELECT k.ord, p.name, coalesce(c.behind, CASE WHEN k.group_id = 0 THEN p.total ELSE 0 END) AS messages
  FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k(group_id, partition_id, ord)
 CROSS JOIN LATERAL (
        SELECT p.id, p.name, p.last_seq, p.trimmed, p.last_seq - p.trimmed - p.holes AS total FROM belfry.partition p
         WHERE p.id >= k.partition_id AND p.id <= k.partition_id
         ORDER BY p.id DESC
         LIMIT 1) AS p
 CROSS JOIN LATERAL (
        SELECT max(greatest(p.last_seq - greatest(c.committed, p.trimmed) - coalesce(belfry.skipped_after(c.skip, 0), 0) + c.redrives, 0)) AS behind
          FROM (SELECT c.committed, c.skip, coalesce(c.redrives, 0) AS redrives FROM belfry.cursor c
                 WHERE c.partition_id = p.id AND (k.group_id = 0 OR c.group_id = k.group_id)
                 OFFSET 0) AS c) AS c
 ORDER BY k.ord
