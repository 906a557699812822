-- Lists the queues with namespace $1 and task $2 (NULL or empty: any) whose names match one of the LIKE
-- patterns $4 (NULL: any). Returns for each queue the id of group $3 (NULL: the group has not joined) and
-- the seconds until the group is due (NULL: unknown). Queues with a due cursor are first, together with
-- queues that the group has not joined, because these may have messages. They are sorted by priority, and
-- then by the time for which they have been due. The other queues follow, sorted in the same way.
SELECT q.name, q.id AS queue_id, g.id AS group_id, g.joined_upto IS NOT NULL AS joining, extract(epoch FROM d.ready_at - statement_timestamp())::float8 AS ready_in
  FROM belfry.queue q
  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = $3::text AND g.whole_queue
  LEFT JOIN LATERAL (
        SELECT c.ready_at FROM belfry.cursor c
         WHERE c.group_id = g.id AND c.ready_at < 'infinity'
         ORDER BY c.ready_at
         LIMIT 1) AS d ON true
 WHERE q.deleted_at IS NULL
   AND (coalesce($1::text, '') = '' OR q.namespace = $1::text)
   AND (coalesce($2::text, '') = '' OR q.task = $2::text)
   AND ($4::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($4::text[]))
 ORDER BY coalesce(d.ready_at <= statement_timestamp(), g.id IS NULL) DESC, q.priority DESC, d.ready_at NULLS LAST, q.id
