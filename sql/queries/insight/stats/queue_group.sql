-- Finds the group with the name $2 of queue $1, and whether its cursors are still being made and it is paused. If only the subscription of a deleted group is kept, there is none. A kept group lives
-- again when it has a cursor. It is searched in the first 1000 partitions by name.
SELECT g.id, g.joined_upto IS NOT NULL AS joining, g.paused
  FROM belfry.consumer_group g
 WHERE g.queue_id = $1::bigint AND g.name = $2::text
   AND (NOT g.kept OR g.whole_queue OR coalesce((
            SELECT true
              FROM (SELECT p.id FROM belfry.partition p WHERE p.queue_id = $1::bigint ORDER BY p.name LIMIT 1000) AS p
             CROSS JOIN LATERAL (
                    SELECT 1 FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = g.id OFFSET 0) AS c
             LIMIT 1), false))
