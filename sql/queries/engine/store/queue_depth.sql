-- Reads the maxSize of queue $1 and the number of its waiting messages. A message waits if a cursor in
-- its partition has not passed it. If the partition has no cursor, every stored message waits. A single
-- deleted message still counts. Messages that a sweep deleted at the start of the log do not count. No
-- row: the queue is deleted.
--
-- A cursor with waiting messages has a ready_at, unless its partition is paused or its group starts
-- later. So if a group reads the whole queue, the cost grows with the partitions that are paused or have
-- waiting messages. Otherwise unread is true, and the cost grows with all partitions. Without a maxSize
-- the statement counts nothing.
SELECT q.max_size, coalesce(d.depth, 0)::bigint AS depth, u.unread
  FROM belfry.queue q
 CROSS JOIN LATERAL (
        SELECT coalesce(bool_or(g.start_at > statement_timestamp()), false)
               OR NOT coalesce(bool_or(g.whole_queue AND g.joined_upto IS NULL), false) AS unread
          FROM belfry.consumer_group g WHERE g.queue_id = q.id OFFSET 0) AS u
 CROSS JOIN LATERAL (
        SELECT sum(p.last_seq - head.seq + 1) AS depth
          FROM (SELECT c.partition_id AS id
                  FROM belfry.consumer_group g
                 CROSS JOIN LATERAL (
                        SELECT c.partition_id FROM belfry.cursor c
                         WHERE NOT u.unread AND c.group_id = g.id AND c.ready_at IS NOT NULL OFFSET 0) AS c
                 WHERE g.queue_id = q.id AND q.max_size > 0
                UNION
                SELECT a.id FROM belfry.partition a WHERE NOT u.unread AND q.max_size > 0 AND a.queue_id = q.id AND a.paused
                UNION ALL
                SELECT a.id FROM belfry.partition a WHERE u.unread AND q.max_size > 0 AND a.queue_id = q.id) AS w
         CROSS JOIN LATERAL (
                SELECT p.id, p.last_seq FROM belfry.partition p
                 WHERE p.id >= w.id AND p.id <= w.id
                 ORDER BY p.id DESC
                 LIMIT 1) AS p
         CROSS JOIN LATERAL (
                SELECT coalesce(min(c.committed), 0) AS done
                  FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS c
         CROSS JOIN LATERAL (
                SELECT m.seq FROM belfry.message m
                 WHERE p.last_seq > c.done AND m.partition_id = p.id AND m.seq > c.done
                 ORDER BY m.seq
                 LIMIT 1) AS head) AS d
 WHERE q.id = $1::bigint AND q.deleted_at IS NULL
