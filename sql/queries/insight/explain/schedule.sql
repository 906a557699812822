-- Finds the schedule that stores the next message of queue $1 and partition $2. Returns at most one row: its name, when the message
-- is stored, when a pop can return it, and whether the schedule skips the instant while a group is not finished. It examines the
-- next $3 schedules that are due, and the first $3 schedules of the queue by name.
SELECT f.name, f.due_at, f.due_at + f.delay AS visible_at, f.overlap_group IS NOT NULL AS may_skip
  FROM (SELECT s.name, s.queue, s.partition, s.due_at, s.delay, s.overlap_group
          FROM (SELECT d.name, d.queue, d.partition, d.due_at, d.delay, d.overlap_group
                  FROM belfry.schedule d WHERE d.due_at > '-infinity' ORDER BY d.due_at, d.id LIMIT $3::bigint) AS s
        UNION ALL
        SELECT o.name, o.queue, o.partition, o.due_at, o.delay, o.overlap_group
          FROM (SELECT n.name, n.queue, n.partition, n.due_at, n.delay, n.overlap_group
                  FROM belfry.schedule n WHERE n.queue = $1::text ORDER BY n.name LIMIT $3::bigint) AS o
         WHERE o.due_at > '-infinity') AS f
 WHERE f.queue = $1::text AND f.partition = $2::text
 ORDER BY f.due_at, f.name
 LIMIT 1
