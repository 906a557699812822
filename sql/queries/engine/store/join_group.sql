-- Registers a consumer group; see belfry.join_group. $1 queue, $2 group, $3 partition (NULL: the whole
-- queue), $4 mode, $5 start for mode timestamp.
--
-- With mode new the group starts at $7. If the queue was created after $6, it starts at $6. $6 is the
-- instant at which the pop arrived. $7 is the instant at which the pop found its group deleted, or equal
-- to $6.
SELECT j.queue_id, j.group_id, j.joining, j.unready
  FROM belfry.join_group($1::text, $2::text, $3::text, $4::text,
                         CASE WHEN $4::text = 'new' THEN CASE
                                  WHEN (SELECT q.created_at FROM belfry.queue q WHERE q.name = $1::text AND q.deleted_at IS NULL)
                                       > $6::timestamptz
                                  THEN $6::timestamptz ELSE $7::timestamptz END
                              ELSE $5::timestamptz END) AS j
