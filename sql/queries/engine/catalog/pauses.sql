-- Lists what is paused, with the reasons. $1: only in this queue, or NULL. $2: only in queues that match these LIKE patterns, or
-- NULL. $3: rows at most. The rows come from the indexes of paused rows.
SELECT q.name, p.partition, p.consumer_group, p.reason
  FROM ((SELECT k.id AS queue_id, NULL::text AS partition, NULL::text AS consumer_group, k.pause_reason AS reason
           FROM belfry.queue k WHERE k.paused ORDER BY k.id LIMIT 10000)
        UNION ALL
        (SELECT k.queue_id, k.name, NULL, k.pause_reason FROM belfry.partition k WHERE k.paused ORDER BY k.queue_id LIMIT 10000)
        UNION ALL
        (SELECT k.queue_id, NULL, k.name, k.pause_reason FROM belfry.consumer_group k WHERE k.paused AND NOT k.kept ORDER BY k.id LIMIT 10000)) AS p
 CROSS JOIN LATERAL (
        SELECT q.name FROM belfry.queue q WHERE q.id = p.queue_id AND q.deleted_at IS NULL OFFSET 0) AS q
 WHERE ($1::text IS NULL OR q.name = $1::text) AND ($2::text[] IS NULL OR q.name COLLATE "C" LIKE ANY ($2::text[]))
 ORDER BY q.name, p.partition NULLS FIRST, p.consumer_group NULLS FIRST
 LIMIT $3::bigint
