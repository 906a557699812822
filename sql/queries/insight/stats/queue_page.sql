-- Lists at most $2 queues by name, after the name $1 (NULL: from the start). $3: a part of the name;
-- case does not matter. $4 namespace and $5 task (empty: any). $6: LIKE patterns of names (NULL: any).
-- It examines at most $7 queues. last is true for queue number $7, which is listed even if it does not
-- match. matches says whether the filters select the queue.
SELECT e.id, e.uid, e.name, e.namespace, e.task, e.created_at, e.paused, e.matches, e.n = $7::bigint AS last
  FROM (SELECT q.id, q.uid, q.name, q.namespace, q.task, q.created_at, q.paused, row_number() OVER (ORDER BY q.name) AS n,
               position(lower($3::text) IN lower(q.name)) > 0
               AND ($4::text = '' OR q.namespace = $4::text) AND ($5::text = '' OR q.task = $5::text)
               AND ($6::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($6::text[])) AS matches
          FROM belfry.queue q
         WHERE q.deleted_at IS NULL AND q.name >= coalesce($1::text, '') AND q.name IS DISTINCT FROM $1::text
         ORDER BY q.name
         LIMIT $7::bigint) AS e
 WHERE e.matches OR e.n = $7::bigint
 ORDER BY e.name
 LIMIT $2::bigint
