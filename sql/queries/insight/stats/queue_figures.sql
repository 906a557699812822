-- Counts queues in bounded work. $1: queue ids. $2: partitions of each queue at most, the first ones by name. $3: cursors of
-- each queue at most, and groups. $4: dead letters of each queue at most. One row for each queue, by its position from 1.
--
-- The column complete says that every partition and group is counted. The columns pending and processing are as in
-- belfry.partition_counts, with one difference. A message that is a dead letter of one group and waits for another is pending.
-- The column age is the age of the oldest unfinished message in these partitions. If partitions were left out, it also covers
-- the 10 partitions of each group that are due longest. It is NULL without such a message.
-- The column late says that such a message is due or leased for a group without a pause, and as old
-- as belfry.late_after says with the default $5 in seconds.
SELECT k.ord, g.n AS groups, s.partitions, s.seen <= s.partitions AND g.n < $3::bigint AS complete, s.total, s.pending, s.processing, dead.n AS dead,
       greatest(s.age, late.age) AS age,
       coalesce(greatest(s.due_age, late.due_age) >= (SELECT belfry.late_after(q.max_wait_time_seconds, $5::float8)
                                                        FROM belfry.queue q WHERE q.id = k.queue_id AND NOT q.paused), false) AS late
  FROM unnest($1::bigint[]) WITH ORDINALITY AS k(queue_id, ord)
 CROSS JOIN LATERAL (
        SELECT array_agg(g.id) AS ids, array_agg(g.id) FILTER (WHERE g.paused) AS stopped, count(*) AS n
          FROM (SELECT g.id, g.paused FROM belfry.consumer_group g
                 WHERE g.queue_id = k.queue_id AND (g.whole_queue OR NOT g.kept)
                 ORDER BY g.name
                 LIMIT $3::bigint) AS g) AS g
 CROSS JOIN LATERAL (
        SELECT count(*) AS partitions,
               (SELECT count(*) FROM (SELECT 1 FROM belfry.partition o
                                       WHERE o.queue_id = k.queue_id AND NOT o.closed ORDER BY o.name LIMIT $2::bigint + 1) AS o) AS seen,
               coalesce(sum(p.total), 0)::bigint AS total,
               coalesce(sum(coalesce(c.waiting, p.total)), 0)::bigint AS pending,
               coalesce(sum(coalesce(c.remaining - c.waiting, 0)), 0)::bigint AS processing, max(coalesce(c.age, fresh.age)) AS age, max(c.due_age) AS due_age
          FROM (SELECT p.id, p.last_seq, p.trimmed, p.last_seq - p.trimmed - p.holes AS total
                  FROM belfry.partition p
                 WHERE p.queue_id = k.queue_id AND NOT p.closed
                 ORDER BY p.name
                 LIMIT greatest(1, least($2::bigint, $3::bigint / greatest(g.n, 1)))) AS p
         CROSS JOIN LATERAL (
                SELECT max(u.remaining) AS remaining, max(u.waiting) AS waiting, max(head.age) AS age, max(head.age) FILTER (WHERE u.due) AS due_age
                  FROM (SELECT c.committed, c.skip, c.due,
                               least(p.last_seq - c.place + c.redriven - coalesce(belfry.skipped_after(c.skip, c.place), 0), p.total) AS remaining,
                               least(p.last_seq - c.leased + c.redriven - coalesce(belfry.skipped_after(c.skip, c.leased), 0), p.total) AS waiting
                          FROM (SELECT c.committed, c.skip, (c.ready_at <= statement_timestamp() OR coalesce(c.lease_until > statement_timestamp(), false))
                                         AND NOT coalesce(c.group_id = ANY (g.stopped), false) AS due,
                                       coalesce(c.redrives, 0) AS redriven, greatest(c.committed, p.trimmed) AS place,
                                       greatest(c.committed, p.trimmed, CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_end END) AS leased
                                  FROM belfry.cursor c
                                 WHERE c.partition_id = p.id
                                 LIMIT $3::bigint) AS c) AS u
                  LEFT JOIN LATERAL (
                        SELECT extract(epoch FROM statement_timestamp() - m.created_at)::float8 AS age FROM belfry.message m
                         WHERE u.remaining > 0 AND m.partition_id = p.id AND m.seq > u.committed AND (u.skip IS NULL OR NOT m.seq <@ u.skip)
                         ORDER BY m.seq
                         LIMIT 1) AS head ON true) AS c
          LEFT JOIN LATERAL ( -- without a group, every message is unfinished
                SELECT extract(epoch FROM statement_timestamp() - m.created_at)::float8 AS age FROM belfry.message m
                 WHERE c.remaining IS NULL AND p.total > 0 AND m.partition_id = p.id AND m.seq > p.trimmed
                 ORDER BY m.seq
                 LIMIT 1) AS fresh ON true) AS s
 CROSS JOIN LATERAL (
        SELECT max(extract(epoch FROM statement_timestamp() - head.created_at)::float8) AS age,
               max(extract(epoch FROM statement_timestamp() - head.created_at)::float8) FILTER (WHERE c.due) AS due_age
          FROM unnest(g.ids) AS i(id)
         CROSS JOIN LATERAL (
                SELECT c.partition_id, c.committed, c.skip, (c.ready_at <= statement_timestamp() OR coalesce(c.lease_until > statement_timestamp(), false))
                         AND NOT coalesce(c.group_id = ANY (g.stopped), false) AS due
                  FROM belfry.cursor c
                 WHERE c.group_id = i.id AND c.ready_at IS NOT NULL
                 ORDER BY c.ready_at
                 LIMIT 10) AS c
         CROSS JOIN LATERAL (
                SELECT m.created_at FROM belfry.message m
                 WHERE m.partition_id = c.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                 ORDER BY m.seq
                 LIMIT 1) AS head
         WHERE s.seen > s.partitions) AS late
 CROSS JOIN LATERAL (
        SELECT count(*) AS n
          FROM (SELECT 1 FROM unnest(g.ids) AS i(id)
                 CROSS JOIN LATERAL (SELECT 1 FROM belfry.dead_letter d WHERE d.group_id = i.id ORDER BY d.failed_at LIMIT $4::bigint) AS d
                 LIMIT $4::bigint) AS d) AS dead
