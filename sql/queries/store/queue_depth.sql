-- Reads how full queue $1 is: its maxSize, and the number of waiting messages. A message waits if a
-- group with a cursor there has not passed it. Without such a group, every stored message waits.
-- Single deleted messages count, and deletions from the low end do not. The cost grows with the
-- partitions. No row: the queue is deleted.
SELECT q.max_size, coalesce(d.depth, 0)::bigint AS depth
  FROM belfry.queue q
 CROSS JOIN LATERAL (
        SELECT sum(p.last_seq - head.seq + 1) AS depth
          FROM belfry.partition p
         CROSS JOIN LATERAL (
                SELECT coalesce(min(c.committed), 0) AS done
                  FROM belfry.cursor c WHERE c.partition_id = p.id OFFSET 0) AS c
         CROSS JOIN LATERAL (
                SELECT m.seq FROM belfry.message m
                 WHERE p.last_seq > c.done AND m.partition_id = p.id AND m.seq > c.done
                 ORDER BY m.seq
                 LIMIT 1) AS head
         WHERE p.queue_id = q.id) AS d
 WHERE q.id = $1::bigint AND q.deleted_at IS NULL
