-- Registers a consumer group; see belfry.join_group. $1 queue, $2 group, $3 partition (NULL: the
-- whole queue), $4 mode, $5 start for mode timestamp.
--
-- For mode new: $6 is when the pop came, and messages stored since then are new. $7 is when the pop
-- found its group deleted, otherwise equal to $6. Messages stored before $7 are not new, unless the
-- queue was created after the pop came.
SELECT j.queue_id, j.group_id, j.joining, j.unready
  FROM belfry.join_group($1::text, $2::text, $3::text, $4::text,
                         CASE WHEN $4::text = 'new' THEN CASE
                                  WHEN (SELECT q.created_at FROM belfry.queue q WHERE q.name = $1::text AND q.deleted_at IS NULL)
                                       > $6::timestamptz
                                  THEN $6::timestamptz ELSE $7::timestamptz END
                              ELSE $5::timestamptz END) AS j
