-- Reads the limits in force of the group $2 in the queue $1, and their use. With the group '' it reads the default of the queue.
-- own is true if the row is that of the group.
SELECT CASE WHEN l.id IS NOT NULL THEN belfry.limits_json(l) END AS limits, l.group_name <> '' AS own, l.changed_at,
       CASE WHEN l.concurrency IS NOT NULL THEN belfry.live_leases(g.id, 0) END AS live,
       CASE WHEN l.rate_messages IS NOT NULL THEN belfry.tokens_left(g.id, 0, l.rate_messages, l.rate_per, l.rate_burst) END AS tokens,
       CASE WHEN g.limits_id IS NOT NULL THEN belfry.limited_until(g.id, g.limits_id) END AS limited_until
  FROM belfry.queue q
  LEFT JOIN belfry.group_limit l ON l.id = belfry.limits_of(q.id, $2::text)
  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = $2::text
 WHERE q.name = $1::text AND q.deleted_at IS NULL
