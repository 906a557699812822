-- Lists up to $3 groups of the queue $1 with limits of their own, by name, after the name $2. It returns no row if the queue does
-- not exist, and one row with NULL if no group follows.
SELECT l.group_name, CASE WHEN l.id IS NOT NULL THEN belfry.limits_json(l) END AS limits
  FROM belfry.queue q
  LEFT JOIN LATERAL (
        SELECT o.* FROM belfry.group_limit o
         WHERE o.queue_id = q.id AND o.group_name > $2::text
         ORDER BY o.group_name LIMIT $3::bigint) AS l ON true
 WHERE q.name = $1::text AND q.deleted_at IS NULL
