-- Lists at most $2 attached tables with their failures, after the attachment with the id $1, by id. $3:
-- LIKE patterns of queue names (NULL: any).
SELECT a.id, a."table", a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.headers, a.strict, a.attached_by::text, a.attached_at,
       a.triggers, a.failures, a.last_failed_at, a.last_failure
  FROM belfry.attachments a
 WHERE a.id > $1::bigint AND ($3::text[] IS NULL OR a.queue COLLATE "C" LIKE ANY ($3::text[]))
 ORDER BY a.id
 LIMIT $2::bigint
