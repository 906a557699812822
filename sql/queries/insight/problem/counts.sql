-- Counts the messages of problems. The cost per problem is limited. By array: $1 kinds, $2 ids of
-- groups, $3 ids of queues, $4 ids of partitions. An id that the kind does not need is 0. $5: dead
-- letters of each problem at most. Returns one row for each problem, with its position from 1.
--
-- The kind lag counts the unfinished messages in the 20 partitions of the group with the earliest ready_at.
-- The kind dead_letters counts the dead letters of the group. The other kinds count the unfinished messages
-- in the partition, or in the first 100 partitions of the queue if no partition is given. Without a group
-- they count for the group with the most unfinished messages. complete: all messages were counted.
SELECT k.ord, coalesce(p.name, '') AS partition_name, coalesce(dead.n, due.n, rest.n, 0) AS messages,
       coalesce(dead.n < $5::bigint, due.partitions < 20, rest.partitions < 100, true) AS complete
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS k(kind, group_id, queue_id, partition_id, ord)
  LEFT JOIN LATERAL (
        SELECT p.id, p.name, p.last_seq, p.trimmed, p.holes FROM belfry.partition p
         WHERE p.id >= k.partition_id AND p.id <= k.partition_id
         ORDER BY p.id DESC
         LIMIT 1) AS p ON k.partition_id > 0
  LEFT JOIN LATERAL (
        SELECT count(*) AS n FROM (SELECT 1 FROM belfry.dead_letter d WHERE d.group_id = k.group_id ORDER BY d.failed_at LIMIT $5::bigint) AS d) AS dead ON k.kind = 'dead_letters'
  LEFT JOIN LATERAL (
        SELECT count(*) AS partitions, coalesce(sum(greatest(p.last_seq - greatest(c.committed, p.trimmed) - coalesce(belfry.skipped_after(c.skip, 0), 0), 0)), 0)::bigint AS n
          FROM (SELECT c.partition_id, c.committed, c.skip FROM belfry.cursor c
                 WHERE c.group_id = k.group_id AND c.ready_at IS NOT NULL
                 ORDER BY c.ready_at
                 LIMIT 20) AS c
         CROSS JOIN LATERAL (
                SELECT p.last_seq, p.trimmed FROM belfry.partition p
                 WHERE p.id >= c.partition_id AND p.id <= c.partition_id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p) AS due ON k.kind = 'lag'
  LEFT JOIN LATERAL (
        SELECT count(*) AS partitions, coalesce(sum(coalesce(c.behind, CASE WHEN k.group_id = 0 THEN t.total ELSE 0 END)), 0)::bigint AS n
          FROM (SELECT p.id, p.last_seq, p.trimmed, p.last_seq - p.trimmed - p.holes AS total
                 WHERE p.id IS NOT NULL
                UNION ALL
                SELECT f.id, f.last_seq, f.trimmed, f.last_seq - f.trimmed - f.holes
                  FROM (SELECT o.id, o.last_seq, o.trimmed, o.holes FROM belfry.partition o
                         WHERE k.partition_id = 0 AND o.queue_id = k.queue_id AND NOT o.closed
                         ORDER BY o.name
                         LIMIT 100) AS f) AS t
         CROSS JOIN LATERAL (
                SELECT max(greatest(t.last_seq - greatest(c.committed, t.trimmed) - coalesce(belfry.skipped_after(c.skip, 0), 0), 0)) AS behind
                  FROM (SELECT c.committed, c.skip FROM belfry.cursor c
                         WHERE c.partition_id = t.id AND (k.group_id = 0 OR c.group_id = k.group_id)
                         LIMIT 100) AS c) AS c) AS rest ON k.kind NOT IN ('lag', 'dead_letters')
 ORDER BY k.ord
